#include "aten/certified/support/attention_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "aten/certified/support/masked_rows.h"
#include "aten/certified/support/products.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/softmax.h"

namespace isobit::aten {
namespace {

constexpr std::int64_t kScores = std::int64_t{64} * 1024;  // at a time: what stays in the L2 cache
constexpr float kOut = -std::numeric_limits<float>::infinity();

// out[r, w] = RN(x[first + r, w] * f), contiguous.
void scale_rows(const HeadRows& x, std::int64_t first, std::int64_t rows, std::int64_t width, float f, float* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x.data + (first + r) * x.row;
    if (x.column == 1) {
      for (std::int64_t w = 0; w < width; ++w) out[r * width + w] = row[w] * f;
    } else {
      for (std::int64_t w = 0; w < width; ++w) out[r * width + w] = row[w * x.column] * f;
    }
  }
}

kernels::MatmulOperand rows_of(const HeadRows& x, std::int64_t first = 0) {
  return {x.data + first * x.row, 0, x.row, x.column};
}
kernels::MatmulOperand turned(const HeadRows& x) { return {x.data, 0, x.column, x.row}; }
kernels::MatmulOperand rows_of(const float* x, std::int64_t width) { return {x, 0, width, 1}; }
kernels::MatmulOperand turned(const float* x, std::int64_t width) { return {x, 0, 1, width}; }

// y [m, n] = alpha * (a [m, k] b [k, n])
void product(std::int64_t m, std::int64_t n, std::int64_t k, const kernels::MatmulOperand& a,
             const kernels::MatmulOperand& b, float* y, float alpha = 1.0f) {
  kernels::MatmulProblem p;
  p.m = m, p.n = n, p.k = k, p.a = a, p.b = b, p.alpha = alpha;
  p.c = y, p.c_row_stride = n;
  multiply(p);
}

}  // namespace

void AttentionMask::add(std::int64_t n, std::int64_t head, std::int64_t query, std::int64_t keys, float* scores) const {
  if (!values.defined()) return;
  const std::int64_t at = n * values.stride(0) + head * values.stride(1) + query * values.stride(2);
  const std::int64_t step = values.stride(3);
  if (values.scalar_type() == at::kFloat) {
    const float* const row = values.const_data_ptr<float>() + at;
    if (step == 1) {
      for (std::int64_t j = 0; j < keys; ++j) scores[j] += row[j];
    } else {
      for (std::int64_t j = 0; j < keys; ++j) scores[j] += row[j * step];
    }
  } else {
    const bool* const row = values.const_data_ptr<bool>() + at;
    for (std::int64_t j = 0; j < keys; ++j) {
      const float added = row[j * step] ? 0.0f : kOut;
      scores[j] = scores[j] + added;
    }
  }
}

Attention::Attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, AttentionMask added,
                     bool with_future_masked, std::optional<double> scale)
    : queries(q.size(2)),
      keys(k.size(2)),
      width(q.size(3)),
      value_width(v.size(3)),
      factor(static_cast<float>(std::sqrt(scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))))))),
      causal(with_future_masked),
      mask(std::move(added)) {}

std::int64_t Attention::rows_together() const { return std::max<std::int64_t>(16, kScores / keys); }

bool Attention::forward(const HeadRows& q, const HeadRows& k, const HeadRows& v, std::int64_t n, std::int64_t head,
                        std::int64_t block, float* y, float* weights) const {
  const std::int64_t first = block * rows_together(), rows = std::min(rows_together(), queries - first);
  kernels::Workspace workspace;
  float* const scaled_q = workspace.floats(rows * width);
  float* const scaled_k = workspace.floats(keys * width);
  float* const scores = workspace.floats(rows * keys);
  float* const of_block = weights == nullptr ? workspace.floats(rows * keys) : weights + first * keys;
  scale_rows(q, first, rows, width, factor, scaled_q);
  scale_rows(k, 0, keys, width, factor, scaled_k);
  product(rows, keys, width, rows_of(scaled_q, width), turned(scaled_k, width), scores);
  for (std::int64_t r = 0; causal && r < rows; ++r) {
    for (std::int64_t j = first + r + 1; j < keys; ++j) {
      float& score = scores[r * keys + j];
      score = score + kOut;
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) mask.add(n, head, first + r, keys, scores + r * keys);
  kernels::SoftmaxShape shape;
  shape.outer = rows, shape.size = keys, shape.inner = 1;
  kernels::softmax(shape, scores, of_block);
  bool usual = true;
  for (std::int64_t r = 0; r < rows; ++r) usual &= of_block[r * keys] == of_block[r * keys];  // NaN fills a row
  if (!usual) clear_masked_rows(shape, scores, of_block);
  product(rows, value_width, keys, rows_of(of_block, keys), rows_of(v), y + first * value_width);
  return usual;
}

void Attention::backward(const HeadRows& q, const HeadRows& k, const HeadRows& v, const HeadRows& dy,
                         const float* weights, const Gradients& to) const {
  kernels::Workspace workspace;
  if (to.v != nullptr) product(keys, value_width, queries, turned(weights, keys), rows_of(dy), to.v);
  if (to.q == nullptr && to.k == nullptr) return;
  float* const of_scores = workspace.floats(queries * keys);
  float* const of_weights = workspace.floats(std::min(rows_together(), queries) * keys);
  for (std::int64_t first = 0; first < queries; first += rows_together()) {
    const std::int64_t rows = std::min(rows_together(), queries - first);
    product(rows, keys, value_width, rows_of(dy, first), turned(v), of_weights);
    kernels::SoftmaxShape shape;
    shape.outer = rows, shape.size = keys, shape.inner = 1;
    kernels::softmax_backward(shape, of_weights, weights + first * keys, of_scores + first * keys);
  }
  if (to.q != nullptr) {
    float* const scaled_k = workspace.floats(keys * width);
    scale_rows(k, 0, keys, width, factor, scaled_k);
    product(queries, width, keys, rows_of(of_scores, keys), rows_of(scaled_k, width), to.q, factor);
  }
  if (to.k != nullptr) {
    float* const scaled_q = workspace.floats(queries * width);
    scale_rows(q, 0, queries, width, factor, scaled_q);
    product(keys, width, queries, turned(of_scores, keys), rows_of(scaled_q, width), to.k, factor);
  }
}

}  // namespace isobit::aten
