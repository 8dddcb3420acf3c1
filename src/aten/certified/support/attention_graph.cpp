#include "aten/certified/support/attention_graph.h"

#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "aten/certified/support/products.h"
#include "aten/certified/support/tensors.h"
#include "aten/observed_calls.h"
#include "aten/subnormals.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using torch::autograd::variable_list;

// Whose last two dimensions are exchanged: the factors' before the product, the product's after it.
struct Turned {
  bool a = false, b = false, product = false;
};

Tensor turned_if(bool turned, const Tensor& x) { return turned ? x.transpose(2, 3) : x; }

bool agree(const Tensor& a, const Tensor& b, Turned turned) {
  return a.dim() == 4 && b.dim() == 4 && a.size(0) == b.size(0) && a.size(1) == b.size(1) &&
         a.size(turned.a ? 2 : 3) == b.size(turned.b ? 3 : 2);
}

// One head's matrix.
kernels::MatmulOperand operand(const Tensor& x, bool turned, std::int64_t n, std::int64_t head) {
  return {x.const_data_ptr<float>() + n * x.stride(0) + head * x.stride(1), x.stride(1), x.stride(turned ? 3 : 2),
          x.stride(turned ? 2 : 3)};
}

// The product for each sample and head, contiguous; then after(n, head, row, its memory). Not of a turned product.
template <class After>
Tensor multiply_heads(const Tensor& a, const Tensor& b, Turned turned, After after) {
  const std::int64_t heads = a.size(1), pairs = a.size(0) * heads, m = a.size(turned.a ? 3 : 2),
                     k = a.size(turned.a ? 2 : 3), columns = b.size(turned.b ? 2 : 3);
  constexpr std::int64_t kWorthAThread = std::int64_t{1} << 17, kWorthAll = std::int64_t{1} << 22;
  const std::int64_t terms = m * k * columns;
  return write_new({a.size(0), heads, m, columns}, [&](float* c) {
    const auto product = [&](std::int64_t pair, std::int64_t batch) {
      kernels::MatmulProblem p;
      p.batch = batch, p.m = m, p.n = columns, p.k = k;
      p.a = operand(a, turned.a, pair / heads, pair % heads), p.b = operand(b, turned.b, pair / heads, pair % heads);
      p.c = c + pair * m * columns, p.c_batch_stride = m * columns, p.c_row_stride = columns;
      multiply(p);
    };
    // Large ones are divided within a product, small ones by pairs.
    const bool large = terms * heads >= kWorthAll;
    for (std::int64_t pair = 0; large && pair < pairs; pair += heads) product(pair, heads);
    kernels::parallel_for(0, pairs, kWorthAThread / (terms + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      const kernels::FloatEnvironment environment;
      for (std::int64_t pair = begin; pair < end; ++pair) {
        if (!large) product(pair, 1);
        for (std::int64_t r = 0; r < m; ++r) after(pair / heads, pair % heads, r, c + (pair * m + r) * columns);
      }
    });
  });
}

Tensor product(const Tensor& a, const Tensor& b, Turned turned);

// A variable of its own, where derivatives are added before they are to others' of the same tensor; in the composition
// it is a view.
Tensor seen_here(const Tensor& x) { return at::GradMode::is_enabled() ? at::alias(x) : x; }

struct HeadsProductBackward final : torch::autograd::Node {
  torch::autograd::SavedVariable a, b;
  Turned turned;

  HeadsProductBackward(const Tensor& a_given, const Tensor& b_given, Turned turned_given)
      : a(a_given, false), b(b_given, false), turned(turned_given) {
    set_next_edges(torch::autograd::collect_next_edges(a_given, b_given));
  }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list d(2);
    if (!gradients[0].defined()) return d;
    const Tensor g = seen_here(gradients[0]);
    // As bmm's are called, the second factor's first, and with the same factor first: in that order a backward of this
    // backward adds.
    if (task_should_compute_output(1)) d[1] = product(seen_here(a.unpack()), g, {!turned.a, turned.product, turned.b});
    if (task_should_compute_output(0)) d[0] = product(g, seen_here(b.unpack()), {turned.product, !turned.b, turned.a});
    return d;
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    a.reset_data(), b.reset_data();
  }
  [[nodiscard]] std::string name() const override { return "HeadsProductBackward"; }
};

bool needs_graph(const Tensor& a, const Tensor& b) {
  return at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad());
}
// Counted by itself, or, before PyTorch 2.13, by a shared pointer whose deleter takes long chains apart.
template <class Pointer, class... Arguments>
Pointer new_product_node(const Arguments&... arguments) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    torch::autograd::Node* const node = new HeadsProductBackward(arguments...);
    return Pointer(node, [](auto* last) { deleteNode(last); });
  } else {
    return Pointer(c10::make_intrusive<HeadsProductBackward>(arguments...));
  }
}
void record_product(const Tensor& result, const Tensor& a, const Tensor& b, Turned turned) {
  using Pointer = decltype(torch::autograd::Edge::function);
  torch::autograd::set_history(result, new_product_node<Pointer>(a, b, turned));
}

Tensor product(const Tensor& a, const Tensor& b, Turned turned) {
  const auto takes = [](const Tensor& x) { return x.is_cpu() && is_plain_memory(x) && is_float(x); };
  if (!takes(a) || !takes(b) || !calls_are_unobserved()) {
    return turned_if(turned.product, at::matmul(turned_if(turned.a, a), turned_if(turned.b, b)));
  }
  // A backward stands in no operator's environment, and hooks of saved tensors may have given others.
  if (!kernels::float_environment_is_ieee()) keep_subnormals();
  TORCH_CHECK(agree(a, b, turned), "backward of aten::scaled_dot_product_attention: a tensor of ", a.sizes(),
              " does not fit one of ", b.sizes(), "; a saved one has other sizes than in the forward pass");
  const auto nothing = [](std::int64_t, std::int64_t, std::int64_t, const float*) {};
  // A product turned is the turned factors' in the other order: its elements are the same chains.
  const Tensor result =
      turned.product ? multiply_heads(b, a, {!turned.b, !turned.a}, nothing) : multiply_heads(a, b, turned, nothing);
  if (needs_graph(a, b)) record_product(result, a, b, turned);
  return result;
}

// The scaled queries times the scaled keys, and the mask, which takes no gradient and hands its own through.
Tensor scores(const Tensor& q, const Tensor& k, const AttentionMask& mask) {
  constexpr Turned keys_as_columns{.b = true};
  const std::int64_t keys = k.size(2);
  const Tensor result = multiply_heads(q, k, keys_as_columns,
                                       [&](std::int64_t n, std::int64_t head, std::int64_t row, float* row_scores) {
                                         mask.add(n, head, row, keys, row_scores);
                                       });
  if (needs_graph(q, k)) record_product(result, q, k, keys_as_columns);
  return result;
}

}  // namespace

Tensor attention_in_few_nodes(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMask& mask,
                              double factor, double dropout) {
  const Tensor scaled_q = at::mul(q, factor), scaled_k = at::mul(k, factor);
  const Tensor weights = at::_safe_softmax(scores(scaled_q, scaled_k, mask), -1);
  const Tensor taken = dropout > 0 ? at::dropout(weights, dropout, true) : seen_here(weights);
  return product(taken, seen_here(v), {});
}

}  // namespace isobit::aten
