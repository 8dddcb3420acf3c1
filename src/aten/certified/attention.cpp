// scaled_dot_product_attention, masked or not, a block of rows at a time (support/attention_heads.h): without gradients
// scores and weights never leave the cache; with them the weights are kept, and one node of the graph stands for the
// composition's eight. The bits are the composition's (contract, section 4), which everything else takes.
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <optional>

#include "aten/certified/support/attention_heads.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool needs_gradient(const Tensor& x) { return at::GradMode::is_enabled() && x.requires_grad(); }

// Values of its own memory: no subclass, no transform, no view that is negated lazily.
bool is_plain(const Tensor& x) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet plain(
      {DispatchKey::CPU, DispatchKey::AutogradCPU, DispatchKey::AutocastCPU, DispatchKey::ADInplaceOrView});
  return x.layout() == at::kStrided && plain.has_all(x.key_set());
}
bool may_be_saved(const Tensor& x) { return !x._fw_grad(0).defined() && !x.is_inference(); }

// What the blocked form takes: three float tensors [n, heads, rows, width] on the CPU that agree.
bool fits(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->dim() != 4 || !is_plain(*x) || x->scalar_type() != at::kFloat || x->numel() == 0) return false;
    if (x->size(0) != q.size(0) || x->size(1) != q.size(1)) return false;
  }
  return q.size(3) == k.size(3) && k.size(2) == v.size(2);
}
bool mask_fits(const std::optional<Tensor>& mask, const Tensor& q, const Tensor& k) {
  if (!mask || !mask->defined()) return true;
  const std::int64_t wanted[] = {q.size(0), q.size(1), q.size(2), k.size(2)}, dims = mask->dim();
  if (dims > 4 || !is_plain(*mask) || needs_gradient(*mask)) return false;
  if (mask->scalar_type() != at::kFloat && mask->scalar_type() != at::kBool) return false;
  for (std::int64_t d = 0; d < dims; ++d) {
    if (mask->size(d) != 1 && mask->size(d) != wanted[4 - dims + d]) return false;
  }
  return true;
}

// Whether each of those that have gradients gets its own: of one tensor twice the engine adds in the composition's
// order.
bool are_apart(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto meet = [](const Tensor& a, const Tensor& b) {
    return a.requires_grad() && b.requires_grad() &&
           torch::autograd::impl::gradient_edge(a) == torch::autograd::impl::gradient_edge(b);
  };
  return !meet(q, k) && !meet(q, v) && !meet(k, v);
}

// function(pair, n, head, block) for each block of each head's rows.
template <class Function>
void for_each_block(const Tensor& q, std::int64_t blocks, const Function& function) {
  const std::int64_t heads = q.size(1);
  kernels::parallel_for(0, q.size(0) * heads * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const kernels::FloatEnvironment environment;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t pair = i / blocks;
      function(pair, pair / heads, pair % heads, i % blocks);
    }
  });
}

// weights: [n, heads, queries, keys], or undefined. usual: false where a row has a weight that is NaN, or is masked
// throughout.
Tensor blocked(const Tensor& q, const Tensor& k, const Tensor& v, const Attention& attention, const Tensor& weights,
               bool& usual) {
  const std::int64_t of_y = attention.queries * attention.value_width, of_weights = attention.queries * attention.keys;
  float* const kept = weights.defined() ? weights.mutable_data_ptr<float>() : nullptr;
  std::atomic<bool> all_usual = true;
  Tensor result = write_new({q.size(0), q.size(1), attention.queries, attention.value_width}, [&](float* y) {
    for_each_block(q, attention.blocks(),
                   [&](std::int64_t pair, std::int64_t n, std::int64_t head, std::int64_t block) {
                     if (!attention.forward({q, n, head}, {k, n, head}, {v, n, head}, n, head, block, y + pair * of_y,
                                            kept == nullptr ? nullptr : kept + pair * of_weights))
                       all_usual.store(false, std::memory_order_relaxed);
                   });
  });
  usual = all_usual;
  return result;
}

struct Computed {
  Tensor y, weights;
};

// The composition as one node.
struct AttentionLayer : torch::autograd::Function<AttentionLayer> {
  enum Place { kQ, kK, kV, kMask, kWeights };

  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Computed& computed, const std::optional<Tensor>& mask, bool causal,
                        std::optional<double> scale) {
    context->set_materialize_grads(false);
    context->save_for_backward({q, k, v, mask.value_or(Tensor()), computed.weights});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    return computed.y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list d(7);  // of forward's arguments
    if (!gradients[0].defined()) return d;
    const variable_list saved = context->get_saved_variables();
    const bool causal = context->saved_data["causal"].toBool();
    const auto scale = context->saved_data["scale"].toOptional<double>();
    if (at::GradMode::is_enabled()) return with_a_graph(context, saved, gradients[0], causal, scale);
    require_float("aten::scaled_dot_product_attention", gradients[0]);
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &q = saved[kQ], &k = saved[kK], &v = saved[kV], &weights = saved[kWeights];
    const Tensor dy = gradients[0].is_cpu() && gradients[0].has_storage() ? gradients[0] : contiguous(gradients[0]);
    const Attention attention(q, k, v, {}, causal, scale);
    for (const Place place : {kQ, kK, kV})
      if (context->needs_input_grad(place)) d[place] = new_tensor(saved[place].sizes());
    const auto head_of = [](const Tensor& x, std::int64_t pair) {
      return x.defined() ? x.mutable_data_ptr<float>() + pair * x.size(2) * x.size(3) : nullptr;
    };
    const auto one = [&](std::int64_t pair, std::int64_t n, std::int64_t head, std::int64_t) {
      attention.backward({q, n, head}, {k, n, head}, {v, n, head}, {dy, n, head}, head_of(weights, pair),
                         {head_of(d[kQ], pair), head_of(d[kK], pair), head_of(d[kV], pair)});
    };
    const std::int64_t heads = q.size(1), pairs = q.size(0) * heads;
    if (pairs >= kernels::thread_count()) {
      for_each_block(q, 1, one);
    } else {  // the products share their own work
      for (std::int64_t pair = 0; pair < pairs; ++pair) one(pair, pair / heads, pair % heads, 0);
    }
    return d;
  }

 private:
  // A gradient that has one itself: the composition's.
  static variable_list with_a_graph(AutogradContext* context, const variable_list& saved, const Tensor& dy, bool causal,
                                    std::optional<double> scale) {
    const auto mask = saved[kMask].defined() ? std::optional<Tensor>(saved[kMask]) : std::nullopt;
    const Tensor y =
        at::native::scaled_dot_product_attention(saved[kQ], saved[kK], saved[kV], mask, 0.0, causal, scale);
    variable_list inputs;
    for (const Place place : {kQ, kK, kV})
      if (context->needs_input_grad(place)) inputs.push_back(saved[place]);
    const variable_list found = torch::autograd::grad({y}, inputs, {dy}, true, true);
    variable_list d(7);
    auto next = found.begin();
    for (const Place place : {kQ, kK, kV})
      if (context->needs_input_grad(place)) d[place] = *next++;
    return d;
  }
};

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, double dropout,
                 bool causal, std::optional<double> scale, bool grouped) {
  const bool masked = mask && mask->defined();
  const bool plain = dropout == 0 && !grouped && scale.value_or(1) >= 0 && !(masked && causal);
  if (plain && fits(q, k, v) && mask_fits(mask, q, k)) {
    const bool graph = needs_gradient(q) || needs_gradient(k) || needs_gradient(v);
    const Tensor added = masked ? mask->expand({q.size(0), q.size(1), q.size(2), k.size(2)}) : Tensor();
    const Attention work(q, k, v, {added}, causal, scale);
    bool usual = true;
    if (!graph) return blocked(q, k, v, work, {}, usual);
    // Modes see the composition's operators, hooks what it saves: they may change it.
    const bool one_node = !c10::impl::dispatch_mode_enabled() && !at::SavedTensorDefaultHooks::get_hooks() &&
                          may_be_saved(q) && may_be_saved(k) && may_be_saved(v) && (!masked || may_be_saved(*mask)) &&
                          are_apart(q, k, v);
    if (one_node) {
      Computed computed;
      {
        const at::AutoDispatchBelowADInplaceOrView below;
        computed.weights = new_tensor({q.size(0), q.size(1), q.size(2), k.size(2)});
        computed.y = blocked(q, k, v, work, computed.weights, usual);
      }
      if (usual) {
        const auto kept = masked ? std::optional<Tensor>(added) : std::nullopt;
        return AttentionLayer::apply(q, k, v, computed, kept, causal, scale);
      }
    }
  }
  return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, grouped);
}

}  // namespace

std::vector<Entry> attention_operators() {
  return {
      certify_layer<attention>("aten::scaled_dot_product_attention", "", "4: torch's composition, in blocks of rows")};
}

}  // namespace isobit::aten
