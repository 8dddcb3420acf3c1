// Ronneberger, Fischer, Brox, "U-Net: convolutional networks for biomedical image segmentation", 2015; with padding, so
// that the output has the input's size, and batch norm. Logits per pixel: [n, classes, height, width].
#pragma once

#include "train/networks/layers.h"

namespace isobit::train::networks {

// Two 3x3 convolutions, each with batch norm and ReLU.
struct DoubleConv : nn::Module {
  DoubleConv(std::int64_t in, std::int64_t out)
      : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = at::relu(call("bn1", bn1, call("conv1", conv1, x)));
    return at::relu(call("bn2", bn2, call("conv2", conv2, y)));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
};

struct UNet : Network {
  // Level 0 is the image's; each level below has half the pixels and twice the channels.
  UNet(const ModelSettings& settings, std::int64_t channels) : dropout(settings.dropout) {
    const std::int64_t width = width_of(settings), depth = depth_of(settings);
    for (std::int64_t level = 0; level <= depth; ++level) {
      const std::int64_t in = level == 0 ? channels : width << (level - 1);
      add(down, fmt::format("down{}", level), std::make_shared<DoubleConv>(in, width << level));
    }
    for (std::int64_t level = depth; level-- > 0;) {
      const std::int64_t out = width << level;
      const std::string name = fmt::format("up{}", level);
      const nn::ConvTranspose2d raise(nn::ConvTranspose2dOptions(2 * out, out, 2).stride(2));
      up.push_back({name, register_module(name, raise)});
      add(merge, fmt::format("merge{}", level), std::make_shared<DoubleConv>(2 * out, out));
    }
    head = register_module("head", nn::Conv2d(nn::Conv2dOptions(width, settings.classes, 1)));
  }
  static std::int64_t width_of(const ModelSettings& settings) { return settings.width > 0 ? settings.width : 32; }
  static std::int64_t depth_of(const ModelSettings& settings) { return settings.depth > 0 ? settings.depth : 2; }

  at::Tensor forward(at::Tensor x) {
    std::vector<at::Tensor> levels;
    for (auto& [name, block] : down) {
      if (!levels.empty()) x = at::max_pool2d(x, {2, 2});
      levels.push_back(x = call(name.c_str(), block, x));
    }
    for (std::size_t i = 0; i < up.size(); ++i) {
      x = call(up[i].name.c_str(), up[i].raise, x);
      x = call(merge[i].name.c_str(), merge[i].block, at::cat({levels[levels.size() - 2 - i], x}, 1));
    }
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("head", head, x);
  }

  struct NamedBlock {
    std::string name;
    std::shared_ptr<DoubleConv> block;
  };
  struct NamedRaise {
    std::string name;
    nn::ConvTranspose2d raise;
  };
  void add(std::vector<NamedBlock>& blocks, const std::string& name, std::shared_ptr<DoubleConv> block) {
    blocks.push_back({name, register_module(name, std::move(block))});
  }
  std::vector<NamedBlock> down, merge;
  std::vector<NamedRaise> up;
  nn::Conv2d head{nullptr};
  double dropout;
};

}  // namespace isobit::train::networks
