// Radford et al., "Language models are unsupervised multitask learners", 2019: GPT-2 with tied embeddings, no dropout.
// Tokens [n, t] to logits [n, t, vocabulary]; names as the published weights'.
#pragma once

#include <ATen/ops/embedding.h>

#include "train/networks/attention.h"

namespace isobit::train::networks {

struct Gpt2Block : nn::Module {
  Gpt2Block(std::int64_t width, std::int64_t heads)
      : ln_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({width})))),
        attn(register_module("attn", std::make_shared<FusedAttention>(width, heads, true, "c_attn", "c_proj"))),
        ln_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({width})))),
        mlp(register_module("mlp", std::make_shared<FeedForward>(width, 4 * width, "c_fc", "c_proj", "tanh"))) {}
  at::Tensor forward(at::Tensor x) {
    x = x + call("attn", attn, call("ln_1", ln_1, x));
    return x + call("mlp", mlp, call("ln_2", ln_2, x));
  }
  nn::LayerNorm ln_1;
  std::shared_ptr<FusedAttention> attn;
  nn::LayerNorm ln_2;
  std::shared_ptr<FeedForward> mlp;
};

struct Gpt2 : Network {
  // width 768, depth 12, heads 12 and classes 50257 are GPT-2's 124 million parameters.
  explicit Gpt2(const ModelSettings& settings, std::int64_t positions = 1024) {
    const std::int64_t width = width_of(settings), depth = settings.depth > 0 ? settings.depth : 4;
    wte = register_parameter("wte", at::zeros({settings.classes, width}));
    wpe = register_parameter("wpe", at::zeros({positions, width}));
    const auto list = register_module("h", std::make_shared<nn::Module>());
    for (std::int64_t i = 0; i < depth; ++i) {
      blocks.push_back(
          {fmt::format("h.{}", i),
           list->register_module(std::to_string(i), std::make_shared<Gpt2Block>(width, heads_of(settings, width)))});
    }
    ln_f = register_module("ln_f", nn::LayerNorm(nn::LayerNormOptions({width})));
  }
  static std::int64_t width_of(const ModelSettings& settings) { return settings.width > 0 ? settings.width : 128; }
  static Start start(const nn::Module& module, const std::string& leaf, const at::Tensor& tensor) {
    if (tensor.dim() == 2) return {Start::normal, 0.02};
    if (module.as<nn::Linear>() != nullptr) return {Start::constant, 0.0};
    return usual_start(module, leaf);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = at::embedding(wte, tokens) + wpe.narrow(0, 0, tokens.size(1));
    for (auto& [name, block] : blocks) x = call(name.c_str(), block, x);
    return at::linear(call("ln_f", ln_f, x), wte);
  }

  struct NamedBlock {
    std::string name;
    std::shared_ptr<Gpt2Block> block;
  };
  at::Tensor wte, wpe;
  std::vector<NamedBlock> blocks;
  nn::LayerNorm ln_f{nullptr};
};

}  // namespace isobit::train::networks
