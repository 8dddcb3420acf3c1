// He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015; names as torchvision's.
#pragma once

#include "train/networks/layers.h"

namespace isobit::train::networks {

inline nn::Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BasicBlock : nn::Module {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", plain_conv(in, out, 3, stride))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", plain_conv(out, out, 3, 1))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {
    if (stride == 1 && in == out) return;
    const auto downsample = register_module("downsample", std::make_shared<nn::Module>());
    shortcut = downsample->register_module("0", plain_conv(in, out, 1, stride));
    shortcut_norm = downsample->register_module("1", nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = at::relu(call("bn1", bn1, call("conv1", conv1, x)));
    y = call("bn2", bn2, call("conv2", conv2, y));
    const bool same = shortcut.is_empty();
    return at::relu(y + (same ? x : call("downsample.1", shortcut_norm, call("downsample.0", shortcut, x))));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d shortcut{nullptr};
  nn::BatchNorm2d shortcut_norm{nullptr};
};

struct ResNet18 : Network {
  static Start start(const nn::Module& module, const std::string& leaf, const at::Tensor& tensor) {
    const auto* conv = module.as<nn::Conv2d>();
    if (conv == nullptr) return usual_start(module, leaf);
    return {Start::normal, std::sqrt(2.0 / static_cast<double>(tensor.numel() / tensor.size(1)))};
  }

  ResNet18(const ModelSettings& settings, std::int64_t channels)
      : small(settings.stem == "small"),
        conv1(register_module("conv1", small ? plain_conv(channels, 64, 3, 1) : plain_conv(channels, 64, 7, 2))),
        bn1(register_module("bn1", nn::BatchNorm2d(64))),
        fc(register_module("fc", nn::Linear(512, settings.classes))),
        dropout(settings.dropout) {
    std::int64_t in = 64;
    for (int stage = 1; stage <= 4; ++stage) {
      const std::int64_t out = std::int64_t{32} << stage;
      const auto layer = register_module(fmt::format("layer{}", stage), std::make_shared<nn::Module>());
      for (int place = 0; place < 2; ++place) {
        const std::int64_t stride = place == 0 && stage > 1 ? 2 : 1;
        blocks.push_back(
            {fmt::format("layer{}.{}", stage, place),
             layer->register_module(std::to_string(place), std::make_shared<BasicBlock>(in, out, stride))});
        in = out;
      }
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = at::relu(call("bn1", bn1, call("conv1", conv1, x)));
    if (!small) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (auto& [name, block] : blocks) x = call(name.c_str(), block, x);
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("fc", fc, x);
  }
  struct NamedBlock {
    std::string name;
    std::shared_ptr<BasicBlock> block;
  };
  bool small;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::vector<NamedBlock> blocks;
  nn::Linear fc;
  double dropout;
};

}  // namespace isobit::train::networks
