// The networks of train/model.h written again as plain functions of named tensors, in any type: an oracle that
// shares nothing with the modules but the names of parameters.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>

namespace isobit::train {

using Weights = std::map<std::string, at::Tensor>;

inline at::Tensor linear_of(const Weights& w, const std::string& name, const at::Tensor& x) {
  return at::matmul(x, w.at(name + ".weight").t()) + w.at(name + ".bias");
}

inline at::Tensor mlp_of(const Weights& w, at::Tensor x) {
  x = x.reshape({x.size(0), -1});
  for (int i = 1;; ++i) {
    const std::string name = "fc" + std::to_string(i);
    x = linear_of(w, name, x);
    if (!w.count("fc" + std::to_string(i + 1) + ".weight")) return x;
    x = at::relu(x);
  }
}

inline at::Tensor lenet5_of(const Weights& w, at::Tensor x) {
  x = at::max_pool2d(at::relu(at::conv2d(x, w.at("conv1.weight"), w.at("conv1.bias"), 1, 2)), 2);
  x = at::max_pool2d(at::relu(at::conv2d(x, w.at("conv2.weight"), w.at("conv2.bias"))), 2);
  x = x.reshape({x.size(0), -1});
  x = at::relu(linear_of(w, "fc1", x));
  return linear_of(w, "fc3", at::relu(linear_of(w, "fc2", x)));
}

// Batch norm in training, from its definition.
inline at::Tensor norm_of(const Weights& w, const std::string& name, const at::Tensor& x) {
  const at::Tensor mean = x.mean({0, 2, 3}, true), variance = (x - mean).square().mean({0, 2, 3}, true);
  const auto shape = [&](const at::Tensor& t) { return t.reshape({1, -1, 1, 1}); };
  return (x - mean) / at::sqrt(variance + 1e-5) * shape(w.at(name + ".weight")) + shape(w.at(name + ".bias"));
}

inline at::Tensor resnet18_of(const Weights& w, at::Tensor x) {
  const auto conv = [&](const std::string& name, const at::Tensor& in, int stride) {
    const at::Tensor& weight = w.at(name + ".weight");
    return at::conv2d(in, weight, {}, stride, weight.size(2) / 2);
  };
  const bool small = w.at("conv1.weight").size(2) == 3;
  x = at::relu(norm_of(w, "bn1", conv("conv1", x, small ? 1 : 2)));
  if (!small) x = at::max_pool2d(x, 3, 2, 1);
  for (int stage = 1; stage <= 4; ++stage) {
    for (int place = 0; place < 2; ++place) {
      const std::string block = "layer" + std::to_string(stage) + "." + std::to_string(place);
      const int stride = stage > 1 && place == 0 ? 2 : 1;
      at::Tensor y = at::relu(norm_of(w, block + ".bn1", conv(block + ".conv1", x, stride)));
      y = norm_of(w, block + ".bn2", conv(block + ".conv2", y, 1));
      const bool projected = w.count(block + ".downsample.0.weight") > 0;
      x = at::relu(y + (projected ? norm_of(w, block + ".downsample.1", conv(block + ".downsample.0", x, stride)) : x));
    }
  }
  return linear_of(w, "fc", x.mean({2, 3}));
}

inline at::Tensor logits_of(const std::string& model, const Weights& w, const at::Tensor& x) {
  if (model == "mlp") return mlp_of(w, x);
  if (model == "lenet5") return lenet5_of(w, x);
  return resnet18_of(w, x);
}

}  // namespace isobit::train
