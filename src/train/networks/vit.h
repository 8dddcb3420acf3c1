// Dosovitskiy et al., "An image is worth 16x16 words", 2021, in the size "tiny" of Touvron et al., 2021 (width 192, 12
// blocks, 3 heads); names as timm's.
#pragma once

#include "train/networks/attention.h"

namespace isobit::train::networks {

struct VitBlock : nn::Module {
  VitBlock(std::int64_t width, std::int64_t heads)
      : norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6)))),
        attn(register_module("attn", std::make_shared<FusedAttention>(width, heads, false, "qkv", "proj"))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width}).eps(1e-6)))),
        mlp(register_module("mlp", std::make_shared<FeedForward>(width, 4 * width, "fc1", "fc2", "none"))) {}
  at::Tensor forward(at::Tensor x) {
    x = x + call("attn", attn, call("norm1", norm1, x));
    return x + call("mlp", mlp, call("norm2", norm2, x));
  }
  nn::LayerNorm norm1;
  std::shared_ptr<FusedAttention> attn;
  nn::LayerNorm norm2;
  std::shared_ptr<FeedForward> mlp;
};

struct VitTiny : Network {
  VitTiny(const ModelSettings& settings, std::int64_t in, std::int64_t height, std::int64_t width)
      : dropout(settings.dropout) {
    const std::int64_t channels = width_of(settings), patch = settings.patch;
    const auto embed = register_module("patch_embed", std::make_shared<nn::Module>());
    project = embed->register_module("proj", nn::Conv2d(nn::Conv2dOptions(in, channels, patch).stride(patch)));
    cls_token = register_parameter("cls_token", at::zeros({1, 1, channels}));
    pos_embed = register_parameter("pos_embed", at::zeros({1, 1 + (height / patch) * (width / patch), channels}));
    const auto list = register_module("blocks", std::make_shared<nn::Module>());
    const std::int64_t depth = settings.depth > 0 ? settings.depth : 12;
    for (std::int64_t i = 0; i < depth; ++i) {
      blocks.push_back({fmt::format("blocks.{}", i),
                        list->register_module(std::to_string(i),
                                              std::make_shared<VitBlock>(channels, heads_of(settings, channels)))});
    }
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({channels}).eps(1e-6)));
    head = register_module("head", nn::Linear(channels, settings.classes));
  }
  static std::int64_t width_of(const ModelSettings& settings) { return settings.width > 0 ? settings.width : 192; }
  static Start start(const nn::Module& module, const std::string& leaf, const at::Tensor& /*tensor*/) {
    if (leaf == "cls_token" || leaf == "pos_embed") return {Start::normal, 0.02};
    return usual_start(module, leaf);
  }

  at::Tensor forward(at::Tensor x) {
    x = call("patch_embed.proj", project, x).flatten(2).transpose(1, 2);
    x = at::cat({cls_token.expand({x.size(0), -1, -1}), x}, 1) + pos_embed;
    for (auto& [name, block] : blocks) x = call(name.c_str(), block, x);
    x = call("norm", norm, x).select(1, 0);
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("head", head, x);
  }

  struct NamedBlock {
    std::string name;
    std::shared_ptr<VitBlock> block;
  };
  nn::Conv2d project{nullptr};
  at::Tensor cls_token, pos_embed;
  std::vector<NamedBlock> blocks;
  nn::LayerNorm norm{nullptr};
  nn::Linear head{nullptr};
  double dropout;
};

}  // namespace isobit::train::networks
