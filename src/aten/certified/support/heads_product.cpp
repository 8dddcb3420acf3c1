#include "aten/certified/support/heads_product.h"

#include <ATen/core/DimVector.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/matmul.h>
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

Tensor turned_if(bool turned, const Tensor& x) { return turned ? x.transpose(-2, -1) : x; }

// [n, heads, rows, columns] or [heads, rows, columns].
bool are_heads(const Tensor& x) {
  return (x.dim() == 4 || x.dim() == 3) && x.is_cpu() && is_float(x) && is_plain_memory(x);
}
bool agree(const Tensor& a, const Tensor& b, Turned turned) {
  const std::int64_t batch = a.dim() - 2;
  return a.dim() == b.dim() && batch > 0 && a.sizes().slice(0, batch) == b.sizes().slice(0, batch) &&
         a.size(turned.a ? -2 : -1) == b.size(turned.b ? -1 : -2);
}

std::int64_t samples_of(const Tensor& x) { return x.dim() == 4 ? x.size(0) : 1; }
std::int64_t between_samples(const Tensor& x) { return x.dim() == 4 ? x.stride(0) : 0; }

// One head's matrix.
kernels::MatmulOperand operand(const Tensor& x, bool turned, std::int64_t n, std::int64_t head) {
  return {x.const_data_ptr<float>() + n * between_samples(x) + head * x.stride(-3), x.stride(-3),
          x.stride(turned ? -1 : -2), x.stride(turned ? -2 : -1)};
}

// All products in one problem: heads follow each other in memory as samples do.
bool are_even(const Tensor& x) { return samples_of(x) == 1 || x.stride(0) == x.size(1) * x.stride(1); }

// The product for each sample and head, contiguous. Not of a turned product.
Tensor multiplied(const Tensor& a, const Tensor& b, Turned turned, const AfterRow& after) {
  const std::int64_t heads = a.size(-3), pairs = samples_of(a) * heads, m = a.size(turned.a ? -1 : -2),
                     k = a.size(turned.a ? -2 : -1), columns = b.size(turned.b ? -2 : -1);
  constexpr std::int64_t kWorthAThread = std::int64_t{1} << 17, kWorthAll = std::int64_t{1} << 22;
  const std::int64_t terms = m * k * columns;
  at::DimVector sizes(a.sizes());
  sizes[sizes.size() - 2] = m, sizes.back() = columns;
  return write_new(sizes, [&](float* c) {
    const auto product = [&](std::int64_t pair, std::int64_t batch) {
      kernels::MatmulProblem p;
      p.batch = batch, p.m = m, p.n = columns, p.k = k;
      p.a = operand(a, turned.a, pair / heads, pair % heads), p.b = operand(b, turned.b, pair / heads, pair % heads);
      p.c = c + pair * m * columns, p.c_batch_stride = m * columns, p.c_row_stride = columns;
      multiply(p);
    };
    // Large ones are divided within a product, small ones by pairs.
    const std::int64_t together = are_even(a) && are_even(b) && !after ? pairs : terms * heads >= kWorthAll ? heads : 1;
    for (std::int64_t pair = 0; together > 1 && pair < pairs; pair += together) product(pair, together);
    if (together > 1 && !after) return;
    kernels::parallel_for(0, pairs, kWorthAThread / (terms + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      const kernels::FloatEnvironment environment;
      for (std::int64_t pair = begin; pair < end; ++pair) {
        if (together == 1) product(pair, 1);
        for (std::int64_t r = 0; after && r < m; ++r)
          after(pair / heads, pair % heads, r, c + (pair * m + r) * columns);
      }
    });
  });
}

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
    if (task_should_compute_output(1))
      d[1] = heads_product(seen_here(a.unpack()), g, {!turned.a, turned.product, turned.b});
    if (task_should_compute_output(0))
      d[0] = heads_product(g, seen_here(b.unpack()), {turned.product, !turned.b, turned.a});
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

}  // namespace

Tensor seen_here(const Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad() ? at::alias(x) : x; }

bool takes_heads(const Tensor& a, const Tensor& b) {
  return are_heads(a) && are_heads(b) && agree(a, b, {}) && a.numel() > 0 && b.numel() > 0 && calls_are_unobserved();
}

Tensor heads_product(const Tensor& a, const Tensor& b, Turned turned, const AfterRow& after) {
  if (!are_heads(a) || !are_heads(b) || !calls_are_unobserved()) {
    return turned_if(turned.product, at::matmul(turned_if(turned.a, a), turned_if(turned.b, b)));
  }
  // A backward stands in no operator's environment, and hooks of saved tensors may have given others.
  if (!kernels::float_environment_is_ieee()) keep_subnormals();
  TORCH_CHECK(agree(a, b, turned), "a product of heads: a tensor of ", a.sizes(), " does not fit one of ", b.sizes(),
              "; in backward, a saved one has other sizes than in the forward pass");
  // A product turned is the turned factors' in the other order: its elements are the same chains.
  Tensor result = turned.product ? multiplied(b, a, {!turned.b, !turned.a}, after) : multiplied(a, b, turned, after);
  if (needs_graph(a, b)) record_product(result, a, b, turned);
  return result;
}

}  // namespace isobit::aten
