// scaled_dot_product_attention without gradients: a block of rows at a time, scores and weights never leave the cache.
// With gradients, where a head's scores stay in the cache, as one step of the graph instead of eight.
// The bits are those of the composition (contract, section 4), which everything else takes: each score is a chain over
// the width, each weight a softmax over a row, each output a chain over the keys, whichever rows are computed together.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <optional>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/masked_rows.h"
#include "aten/certified/support/products.h"
#include "aten/certified/support/tensors.h"
#include "aten/plain_calls.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/softmax.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

constexpr std::int64_t kScores = 64 * 1024;  // at a time: what stays in the L2 cache

std::int64_t rows_together(std::int64_t keys) { return std::max<std::int64_t>(16, kScores / keys); }

bool needs_gradient(const Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); }

// What our forms take: three float tensors [n, heads, rows, width] on the CPU that agree.
bool fits(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->dim() != 4 || !x->is_cpu() || x->scalar_type() != at::kFloat || x->numel() == 0) return false;
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
      for (std::int64_t w = 0; w < width; ++w) out[r * width + w] = row[w] * f;
    } else {
      for (std::int64_t w = 0; w < width; ++w) out[r * width + w] = row[w * x.column] * f;
    }
  }
}

// A factor of a product: element (r, c) at r * row + c * column.
struct Factor {
  const float* data;
  std::int64_t row, column;
};
// c, contiguous, = a [m, k] b [k, n]
void into(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b, float* c) {
  kernels::MatmulProblem product;
  product.m = m, product.n = n, product.k = k;
  product.a.data = a.data, product.a.row_stride = a.row, product.a.column_stride = a.column;
  product.b.data = b.data, product.b.row_stride = b.row, product.b.column_stride = b.column;
  product.c = c, product.c_row_stride = n;
  multiply(product);
}

struct Attention {
  std::int64_t queries, keys, width, value_width;
  float factor;
  bool causal;

  Attention(const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal, std::optional<double> scale_given)
      : queries(q.size(2)),
        keys(k.size(2)),
        width(q.size(3)),
        value_width(v.size(3)),
        factor(static_cast<float>(std::sqrt(scale_given.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))))))),
        causal(is_causal) {}

  // Rows [first, first + rows) of one head; y: [queries, value_width]; weights: [rows, keys].
  void block(const Rows& q, const Rows& k, const Rows& v, std::int64_t first, std::int64_t rows, float* weights,
             float* y) const {
    kernels::Workspace workspace;
    float* scaled_q = workspace.floats(rows * width);
    float* scaled_k = workspace.floats(keys * width);
    float* scores = workspace.floats(rows * keys);
    scale(q, first, rows, width, factor, scaled_q);
    scale(k, 0, keys, width, factor, scaled_k);
    into(rows, keys, width, {scaled_q, width, 1}, {scaled_k, 1, width}, scores);
    for (std::int64_t r = 0; causal && r < rows; ++r) {
      for (std::int64_t j = first + r + 1; j < keys; ++j)
        scores[r * keys + j] += -std::numeric_limits<float>::infinity();
    }
    kernels::SoftmaxShape shape;
    shape.outer = rows, shape.size = keys, shape.inner = 1;
    kernels::softmax(shape, scores, weights);
    clear_masked_rows(shape, scores, weights);
    into(rows, value_width, keys, {weights, keys, 1}, {v.data, v.row, v.column}, y + first * value_width);
  }

  // Of one head; those that nobody asked for are nullptr.
  struct Gradients {
    float *q, *k, *v;
  };
  void backward(const Rows& q, const Rows& k, const Rows& v, const float* weights, const Rows& dy,
                const Gradients& d) const {
    if (d.v != nullptr) into(keys, value_width, queries, {weights, 1, keys}, {dy.data, dy.row, dy.column}, d.v);
    if (d.q == nullptr && d.k == nullptr) return;
    kernels::Workspace workspace;
    float* dweights = workspace.floats(queries * keys);
    float* dscores = workspace.floats(queries * keys);
    into(queries, keys, value_width, {dy.data, dy.row, dy.column}, {v.data, v.column, v.row}, dweights);
    kernels::SoftmaxShape shape;
    shape.outer = queries, shape.size = keys, shape.inner = 1;
    kernels::softmax_backward(shape, dweights, weights, dscores);
    if (d.q != nullptr) {
      float* scaled = workspace.floats(keys * width);
      scale(k, 0, keys, width, factor, scaled);
      into(queries, width, keys, {dscores, keys, 1}, {scaled, width, 1}, d.q);
      for (std::int64_t i = 0; i < queries * width; ++i) d.q[i] *= factor;
    }
    if (d.k != nullptr) {
      float* scaled = workspace.floats(queries * width);
      scale(q, 0, queries, width, factor, scaled);
      into(keys, width, queries, {dscores, 1, keys}, {scaled, width, 1}, d.k);
      for (std::int64_t i = 0; i < keys * width; ++i) d.k[i] *= factor;
    }
  }
};

Tensor blocked(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale_given) {
  const Attention attention(q, k, v, causal, scale_given);
  const std::int64_t heads = q.size(1), together = rows_together(k.size(2)),
                     blocks = (q.size(2) + together - 1) / together;
  const std::int64_t head_size = q.size(2) * v.size(3);
  return write_new({q.size(0), heads, q.size(2), v.size(3)}, [&](float* y) {
    kernels::parallel_for(0, q.size(0) * heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t pair = i / blocks, n = pair / heads, head = pair % heads, first = i % blocks * together;
        const std::int64_t rows = std::min(together, q.size(2) - first);
        kernels::Workspace workspace;
        attention.block({q, n, head}, {k, n, head}, {v, n, head}, first, rows, workspace.floats(rows * k.size(2)),
                        y + pair * head_size);
      }
    });
  });
}

Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale) {
  return at::native::scaled_dot_product_attention(q, k, v, {}, 0.0, causal, scale, false);
}

// ---- with gradients: one step of the graph

struct Training : torch::autograd::Function<Training> {
  using Context = torch::autograd::AutogradContext;
  using List = torch::autograd::variable_list;

  static Tensor forward(Context* context, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                        std::optional<double> scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Attention attention(q, k, v, causal, scale);
    const std::int64_t heads = q.size(1), scores = q.size(2) * k.size(2), head_size = q.size(2) * v.size(3);
    const Tensor y = new_tensor({q.size(0), heads, q.size(2), v.size(3)}),
                 weights = new_tensor({q.size(0), heads, q.size(2), k.size(2)});
    auto *const to = y.mutable_data_ptr<float>(), *const w = weights.mutable_data_ptr<float>();
    kernels::parallel_for(0, q.size(0) * heads, pairs_together(scores), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) {
        const std::int64_t n = pair / heads, head = pair % heads;
        attention.block({q, n, head}, {k, n, head}, {v, n, head}, 0, q.size(2), w + pair * scores,
                        to + pair * head_size);
      }
    });
    context->save_for_backward({q, k, v, weights});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    return y;
  }

  static List backward(Context* context, const List& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &weights = saved[3], &dy = gradients[0];
    const bool causal = context->saved_data["causal"].toBool();
    const auto scale = context->saved_data["scale"].toOptional<double>();
    List d(5);
    if (at::GradMode::is_enabled()) {  // second derivatives are the composition's
      List asked, found;
      for (const Tensor* x : {&q, &k, &v})
        if (x->requires_grad()) asked.push_back(*x);
      found = torch::autograd::grad({composed(q, k, v, causal, scale)}, asked, {dy}, true, true);
      for (std::size_t i = 0, next = 0; i < 3; ++i)
        if (saved[i].requires_grad()) d[i] = found[next++];
      return d;
    }
    require_float("aten::scaled_dot_product_attention", dy);
    for (std::size_t i = 0; i < 3; ++i)
      if (context->needs_input_grad(i)) d[i] = new_tensor(saved[i].sizes());
    const Attention attention(q, k, v, causal, scale);
    const std::int64_t heads = q.size(1), scores = q.size(2) * k.size(2);
    const auto part = [](const Tensor& x, std::int64_t pair) {
      return x.defined() ? x.mutable_data_ptr<float>() + pair * x.size(2) * x.size(3) : nullptr;
    };
    kernels::parallel_for(0, q.size(0) * heads, pairs_together(scores), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t pair = begin; pair < end; ++pair) {
        const std::int64_t n = pair / heads, head = pair % heads;
        attention.backward({q, n, head}, {k, n, head}, {v, n, head}, weights.const_data_ptr<float>() + pair * scores,
                           {dy, n, head}, {part(d[0], pair), part(d[1], pair), part(d[2], pair)});
      }
    });
    return d;
  }

 private:
  // Heads that a thread should at least have.
  static std::int64_t pairs_together(std::int64_t scores) { return std::max<std::int64_t>(1, 1024 / scores); }
};

// Whether nobody sees that the graph has one step: no derivatives forwards, no transforms or modes, no observers. Large
// heads take batched products of the composition, which share a thread's packed factors better.
bool may_be_one_step(const Tensor& q, const Tensor& k, const Tensor& v) {
  constexpr std::int64_t kMostScores = 1 << 14;
  return q.size(2) * k.size(2) <= kMostScores && !at::globalContext().userEnabledFlashSDP() && is_plain_float(q) &&
         is_plain_float(k) && is_plain_float(v) && unobserved();
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, double dropout,
                 bool causal, std::optional<double> scale, bool grouped) {
  const bool plain = (!mask || !mask->defined()) && dropout == 0 && !grouped && scale.value_or(1) >= 0;
  if (plain && fits(q, k, v)) {
    if (!needs_gradient(q) && !needs_gradient(k) && !needs_gradient(v)) return blocked(q, k, v, causal, scale);
    if (may_be_one_step(q, k, v)) return Training::apply(q, k, v, causal, scale);
  }
  return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, grouped);
}

}  // namespace

std::vector<Entry> attention_operators() {
  return {certify_layer<attention>("aten::scaled_dot_product_attention", "",
                                   "4: torch's composition; without gradients in blocks of rows")};
}

}  // namespace isobit::aten
