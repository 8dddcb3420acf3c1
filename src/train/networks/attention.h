// Self-attention and its neighbours (Vaswani et al., "Attention is all you need", 2017), shared by the transformers.
#pragma once

#include <ATen/ops/scaled_dot_product_attention.h>

#include "train/networks/layers.h"

namespace isobit::train::networks {

inline std::int64_t heads_of(const ModelSettings& settings, std::int64_t width) {
  return settings.heads > 0 ? settings.heads : std::max<std::int64_t>(1, width / 64);
}

// [n, rows, 3 width] to q, k, v, each [n, heads, rows, width / heads].
inline std::vector<at::Tensor> split_heads(const at::Tensor& qkv, std::int64_t heads) {
  return qkv.view({qkv.size(0), qkv.size(1), 3, heads, qkv.size(2) / 3 / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
}

// As timm's and GPT-2's: one Linear for q, k, v; rows of the products in the order [n, rows].
struct FusedAttention : nn::Module {
  FusedAttention(std::int64_t width, std::int64_t heads, bool causal, const char* in_name, const char* out_name)
      : in(register_module(in_name, nn::Linear(width, 3 * width))),
        out(register_module(out_name, nn::Linear(width, width))),
        in_name(in_name),
        out_name(out_name),
        heads(heads),
        causal(causal) {}
  at::Tensor forward(const at::Tensor& x) {
    const std::vector<at::Tensor> qkv = split_heads(call(in_name, in, x), heads);
    const at::Tensor y = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0.0, causal);
    return call(out_name, out, y.transpose(1, 2).reshape(x.sizes()));
  }
  nn::Linear in, out;
  const char *in_name, *out_name;
  std::int64_t heads;
  bool causal;
};

struct FeedForward : nn::Module {
  FeedForward(std::int64_t width, std::int64_t hidden, const char* in_name, const char* out_name,
              const char* approximation)
      : in(register_module(in_name, nn::Linear(width, hidden))),
        out(register_module(out_name, nn::Linear(hidden, width))),
        in_name(in_name),
        out_name(out_name),
        approximation(approximation) {}
  at::Tensor forward(const at::Tensor& x) { return call(out_name, out, at::gelu(call(in_name, in, x), approximation)); }
  nn::Linear in, out;
  const char *in_name, *out_name, *approximation;
};

}  // namespace isobit::train::networks
