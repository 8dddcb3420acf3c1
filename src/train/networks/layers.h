// What the networks of model.h share. Only model.cpp includes these headers: torch's modules are dear to compile.
#pragma once

#include <ATen/ops/linear.h>
#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "aten/module_path.h"
#include "train/experiment.h"

namespace isobit::train::networks {

namespace nn = torch::nn;
using aten::ModuleScope;

// Calls a layer under its name, so that a refusal says where it happened.
template <class Layer>
at::Tensor call(const char* name, Layer& layer, const at::Tensor& x) {
  const ModuleScope scope(name);
  return layer->forward(x);
}

// As Python's module computes it; torch's C++ module adds the bias to a product of its own where x has more than two
// dimensions.
inline at::Tensor call(const char* name, nn::Linear& layer, const at::Tensor& x) {
  const ModuleScope scope(name);
  return at::linear(x, layer->weight, layer->bias);
}

// How a parameter starts (model.h).
struct Start {
  enum { uniform, normal, constant } kind = constant;
  double value = 0;  // bound, deviation or the constant
};

inline double fan_in_bound(const at::Tensor& weight) {
  return 1.0 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
}

// PyTorch's defaults for the modules used here.
inline Start usual_start(const nn::Module& module, const std::string& leaf) {
  if (const auto* linear = module.as<nn::Linear>()) return {Start::uniform, fan_in_bound(linear->weight)};
  if (const auto* conv = module.as<nn::Conv2d>()) return {Start::uniform, fan_in_bound(conv->weight)};
  if (const auto* conv = module.as<nn::ConvTranspose2d>()) return {Start::uniform, fan_in_bound(conv->weight)};
  return {Start::constant, leaf == "weight" ? 1.0 : 0.0};
}

// A network that starts otherwise hides this one.
struct Network : nn::Module {
  // `leaf`: the parameter's name within `module`.
  static Start start(const nn::Module& module, const std::string& leaf, const at::Tensor& /*tensor*/) {
    return usual_start(module, leaf);
  }
};

}  // namespace isobit::train::networks
