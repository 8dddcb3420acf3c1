// Attention of one head, a block of rows at a time: scores and weights of a block stay in the cache. The bits are those
// of torch's composition (contract, section 4): each score is a chain over the width, each weight a softmax over a row,
// each output a chain over the keys, whichever rows are computed together; and each gradient the chain that the
// composition's backward has. Private to this folder. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace isobit::aten {

// What is added to the scores: [n, heads, queries, keys] by strides, 0 where a dimension is broadcast. Of booleans 0
// where one is set and -inf elsewhere.
struct AttentionMask {
  at::Tensor values;  // undefined: none

  // Row `query` of one head to a row of scores.
  void add(std::int64_t n, std::int64_t head, std::int64_t query, std::int64_t keys, float* scores) const;
};

// One head's rows of a tensor [n, heads, rows, width].
struct HeadRows {
  const float* data;
  std::int64_t row, column;

  HeadRows(const at::Tensor& x, std::int64_t n, std::int64_t head)
      : data(x.const_data_ptr<float>() + n * x.stride(0) + head * x.stride(1)), row(x.stride(2)), column(x.stride(3)) {}
};

struct Attention {
  std::int64_t queries, keys, width, value_width;
  float factor;  // of queries and of keys: the root of the scale
  bool causal;
  AttentionMask mask;

  // Of q and k [n, heads, rows, width] and v; scale: 1 / sqrt(width) where it is not given, not negative.
  Attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask mask, bool causal,
            std::optional<double> scale);

  [[nodiscard]] std::int64_t rows_together() const;
  [[nodiscard]] std::int64_t blocks() const { return (queries + rows_together() - 1) / rows_together(); }

  // Block `block` of one head's rows. y: the head's [queries, value_width]; weights: its [queries, keys], or nullptr.
  // Whether no row has a weight that is NaN, or would but for the rule about rows that are masked throughout.
  bool forward(const HeadRows& q, const HeadRows& k, const HeadRows& v, std::int64_t n, std::int64_t head,
               std::int64_t block, float* y, float* weights) const;

  // One head's gradients from that of y and from the weights of forward(), contiguous; nullptr: not wanted.
  struct Gradients {
    float *q, *k, *v;
  };
  void backward(const HeadRows& q, const HeadRows& k, const HeadRows& v, const HeadRows& dy, const float* weights,
                const Gradients& to) const;
};

}  // namespace isobit::aten
