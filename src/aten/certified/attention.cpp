// scaled_dot_product_attention without gradients, masked or not: a block of rows at a time, scores and weights never
// leave the cache. The bits are those of the composition (contract, section 4), which everything else takes: each score
// is a chain over the width, each weight a softmax over a row, each output a chain over the keys, whichever rows are
// computed together.
//
// With gradients seven nodes of the graph, a place for each sum of derivatives (heads_product.h), where the composition
// has seventeen. A single node could not give second derivatives in their order.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>

#include <cmath>
#include <optional>

#include "aten/certified/support/attention_mask.h"
#include "aten/certified/support/eight_floats.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/heads_product.h"
#include "aten/certified/support/masked_rows.h"
#include "aten/certified/support/products.h"
#include "aten/certified/support/tensors.h"
#include "aten/observed_calls.h"
#include "aten/plain_memory.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/float_environment.h"
#include "kernels/softmax.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

constexpr std::int64_t kScores = std::int64_t{64} * 1024;  // at a time: what stays in the L2 cache

std::int64_t rows_together(std::int64_t keys) { return std::max<std::int64_t>(16, kScores / keys); }

// What is taken here: three float tensors [n, heads, rows, width] that agree, memory alone.
bool fits(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->dim() != 4 || !x->is_cpu() || !is_plain_memory(*x) || x->scalar_type() != at::kFloat || x->numel() == 0)
      return false;
    if (x->size(0) != q.size(0) || x->size(1) != q.size(1)) return false;
  }
  return q.size(3) == k.size(3) && k.size(2) == v.size(2);
}

// One head's rows of a tensor.
struct Rows {
  const float* data;
  std::int64_t row, column;

  Rows(const Tensor& x, std::int64_t n, std::int64_t head)
      : data(x.const_data_ptr<float>() + n * x.stride(0) + head * x.stride(1)), row(x.stride(2)), column(x.stride(3)) {}
};

// out[r, w] = RN(x[first + r, w] * f), contiguous.
void scale(const Rows& x, std::int64_t first, std::int64_t rows, std::int64_t width, float f, float* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = x.data + (first + r) * x.row;
    if (x.column == 1) {
      each_eight(width, out + r * width, row, [=](auto& y, const auto& of_x) { y = of_x * f; });
    } else {
      for (std::int64_t w = 0; w < width; ++w) out[r * width + w] = row[w * x.column] * f;
    }
  }
}

struct Attention {
  std::int64_t queries, keys, width, value_width;
  float factor;
  AttentionMask mask;

  // Rows [first, first + rows) of one head; y: [queries, value_width].
  void block(const Rows& q, const Rows& k, const Rows& v, std::int64_t n, std::int64_t head, std::int64_t first,
             std::int64_t rows, float* y) const {
    kernels::Workspace workspace;
    float* scaled_q = workspace.floats(rows * width);
    float* scaled_k = workspace.floats(keys * width);
    float* scores = workspace.floats(rows * keys);
    float* weights = workspace.floats(rows * keys);
    scale(q, first, rows, width, factor, scaled_q);
    scale(k, 0, keys, width, factor, scaled_k);
    kernels::MatmulProblem product;
    product.m = rows, product.n = keys, product.k = width;
    product.a.data = scaled_q, product.a.row_stride = width, product.a.column_stride = 1;
    product.b.data = scaled_k, product.b.row_stride = 1, product.b.column_stride = width;
    product.c = scores, product.c_row_stride = keys;
    multiply(product);
    for (std::int64_t r = 0; r < rows; ++r) mask.add(n, head, first + r, keys, scores + r * keys);
    kernels::SoftmaxShape shape;
    shape.outer = rows, shape.size = keys, shape.inner = 1;
    kernels::softmax(shape, scores, weights);
    clear_masked_rows(shape, scores, weights);
    product.n = value_width, product.k = keys;
    product.a.data = weights, product.a.row_stride = keys;
    product.b.data = v.data, product.b.row_stride = v.row, product.b.column_stride = v.column;
    product.c = y + first * value_width, product.c_row_stride = value_width;
    multiply(product);
  }
};

Tensor blocked(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double factor) {
  const Attention attention{q.size(2), k.size(2), q.size(3), v.size(3), static_cast<float>(factor), mask};
  const std::int64_t heads = q.size(1), together = rows_together(k.size(2)),
                     blocks = (q.size(2) + together - 1) / together;
  const std::int64_t head_size = q.size(2) * v.size(3);
  return write_new({q.size(0), heads, q.size(2), v.size(3)}, [&](float* y) {
    kernels::parallel_for(0, q.size(0) * heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      const kernels::FloatEnvironment environment;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t pair = i / blocks, n = pair / heads, head = pair % heads, first = i % blocks * together;
        attention.block({q, n, head}, {k, n, head}, {v, n, head}, n, head, first, std::min(together, q.size(2) - first),
                        y + pair * head_size);
      }
    });
  });
}

Tensor in_few_nodes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask, double factor,
                    double dropout) {
  const std::int64_t keys = k.size(2);
  const auto add_mask = [&](std::int64_t n, std::int64_t head, std::int64_t row, float* scores) {
    mask.add(n, head, row, keys, scores);
  };
  const Tensor scaled_q = at::mul(q, factor), scaled_k = at::mul(k, factor);
  // A mask takes no gradient, and hands the scores' through.
  const Tensor scores = heads_product(scaled_q, scaled_k, {.b = true}, mask.is_none() ? AfterRow() : add_mask);
  const Tensor weights = at::_safe_softmax(scores, -1);
  return heads_product(dropout > 0 ? at::dropout(weights, dropout, true) : seen_here(weights), seen_here(v), {});
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, double dropout,
                 bool causal, std::optional<double> scale, bool grouped) {
  const bool masked = mask && mask->defined();
  const bool plain = !grouped && scale.value_or(1) >= 0 && !(masked && causal);
  if (plain && fits(q, k, v) && AttentionMask::fits(mask, q, k)) {
    const AttentionMask added{masked ? mask->expand({q.size(0), q.size(1), q.size(2), k.size(2)}) : Tensor(), causal};
    const double factor = std::sqrt(scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3)))));
    const bool graph = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
    if (!graph && dropout == 0) return blocked(q, k, v, added, factor);
    if (graph && calls_are_unobserved()) return in_few_nodes(q, k, v, added, factor, dropout);
  }
  return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, grouped);
}

}  // namespace

std::vector<Entry> attention_operators() {
  return {
      certify_layer<attention>("aten::scaled_dot_product_attention", "",
                               "4: torch's composition; without gradients in blocks of rows, with them in few nodes")};
}

}  // namespace isobit::aten
