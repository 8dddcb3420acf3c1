// An encoder over the rows of an image (Vaswani et al., 2017): each row is a token. Layers as
// torch.nn.TransformerEncoderLayer with batch_first, ReLU, norms after the sums and no dropout, with its names and its
// order of rows in every product.
#pragma once

#include "train/networks/attention.h"

namespace isobit::train::networks {

struct EncoderLayer : nn::Module {
  struct SelfAttention : nn::Module {
    SelfAttention(std::int64_t width, std::int64_t heads) : heads(heads) {
      in_proj_weight = register_parameter("in_proj_weight", at::zeros({3 * width, width}));
      in_proj_bias = register_parameter("in_proj_bias", at::zeros({3 * width}));
      out_proj = register_module("out_proj", nn::Linear(width, width));
    }
    // [n, rows, width]; products over rows in the order [rows, n], as torch.nn.MultiheadAttention's.
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor by_row = x.transpose(0, 1);
      const at::Tensor qkv = at::linear(by_row, in_proj_weight, in_proj_bias);  // [rows, n, 3 width]
      const at::Tensor parts =
          qkv.view({qkv.size(0), qkv.size(1), 3, heads, x.size(2) / heads}).permute({2, 1, 3, 0, 4});
      const at::Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
      return call("out_proj", out_proj, y.permute({2, 0, 1, 3}).reshape(by_row.sizes())).transpose(0, 1);
    }
    std::int64_t heads;
    at::Tensor in_proj_weight, in_proj_bias;
    nn::Linear out_proj{nullptr};
  };

  EncoderLayer(std::int64_t width, std::int64_t heads)
      : self_attn(register_module("self_attn", std::make_shared<SelfAttention>(width, heads))),
        linear1(register_module("linear1", nn::Linear(width, 4 * width))),
        linear2(register_module("linear2", nn::Linear(4 * width, width))),
        norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})))),
        norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})))) {}
  at::Tensor forward(at::Tensor x) {
    x = call("norm1", norm1, x + call("self_attn", self_attn, x));
    return call("norm2", norm2, x + call("linear2", linear2, at::relu(call("linear1", linear1, x))));
  }
  std::shared_ptr<SelfAttention> self_attn;
  nn::Linear linear1, linear2;
  nn::LayerNorm norm1, norm2;
};

struct Transformer : Network {
  // `pixels`: of a row, all channels together.
  Transformer(const ModelSettings& settings, std::int64_t height, std::int64_t pixels) : dropout(settings.dropout) {
    const std::int64_t width = width_of(settings), depth = settings.depth > 0 ? settings.depth : 4;
    embed = register_module("embed", nn::Linear(pixels, width));
    position = register_parameter("position", at::zeros({height, width}));
    const auto list = register_module("layers", std::make_shared<nn::Module>());
    for (std::int64_t i = 0; i < depth; ++i) {
      layers.push_back(
          {fmt::format("layers.{}", i),
           list->register_module(std::to_string(i), std::make_shared<EncoderLayer>(width, heads_of(settings, width)))});
    }
    fc = register_module("fc", nn::Linear(width, settings.classes));
  }
  static std::int64_t width_of(const ModelSettings& settings) { return settings.width > 0 ? settings.width : 128; }
  static Start start(const nn::Module& module, const std::string& leaf, const at::Tensor& tensor) {
    if (leaf == "position") return {Start::normal, 0.02};
    if (leaf == "in_proj_weight")
      return {Start::uniform, std::sqrt(6.0 / static_cast<double>(tensor.size(0) + tensor.size(1)))};
    return usual_start(module, leaf);
  }

  at::Tensor forward(at::Tensor x) {
    x = x.size(1) == 1 ? x.squeeze(1) : x.transpose(1, 2).flatten(2);  // [n, rows, channels * columns]
    x = call("embed", embed, x) + position;
    for (auto& [name, layer] : layers) x = call(name.c_str(), layer, x);
    x = x.mean(1);
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("fc", fc, x);
  }

  struct NamedLayer {
    std::string name;
    std::shared_ptr<EncoderLayer> layer;
  };
  nn::Linear embed{nullptr};
  at::Tensor position;
  std::vector<NamedLayer> layers;
  nn::Linear fc{nullptr};
  double dropout;
};

}  // namespace isobit::train::networks
