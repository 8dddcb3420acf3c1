// Connectionist temporal classification (contract, section 8) for all samples and states together: on the host by loops
// (support/ctc_recurrence.h), on a device a few certified operators a time step. Graves, Fernandez, Gomez, Schmidhuber
// ("Connectionist temporal classification", 2006), equations 6 to 16, in logarithms.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
#include <tuple>

#include "aten/certified/support/ctc_recurrence.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr const char* kForward = "aten::_ctc_loss";
constexpr const char* kBackward = "aten::_ctc_loss_backward";
constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// Of n samples, L = 2 * longest + 1 states: blanks at even places, the targets between them.
struct States {
  Tensor x;      // [steps, n, classes]
  Tensor label;  // [n, L]
  Tensor emit;   // [steps, n, L], x at the labels
  Tensor skips;  // [n, L] bool: state s may follow s - 2
  Tensor steps;  // [n], of each sample
  Tensor last;   // [n], 2 * length of the target
  Tensor place;  // [1, L], 0, 1, ...
  std::int64_t time, n, size;
};

States states_of(const char* op, const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                 IntArrayRef target_lengths, std::int64_t blank) {
  require_float(op, log_probs);
  States s;
  s.x = log_probs.dim() == 2 ? log_probs.unsqueeze(1) : log_probs;
  TORCH_CHECK(s.x.dim() == 3, op, ": [steps, n, classes] expected, got ", log_probs.sizes());
  s.time = s.x.size(0), s.n = s.x.size(1);
  const auto n = static_cast<std::size_t>(s.n);
  TORCH_CHECK(input_lengths.size() == n && target_lengths.size() == n, op, ": one length for each of ", s.n,
              " samples expected");
  TORCH_CHECK(blank >= 0 && blank < s.x.size(2), op, ": blank must be a class, got ", blank);
  std::int64_t longest = 0, total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    TORCH_CHECK(input_lengths[i] >= 0 && input_lengths[i] <= s.time && target_lengths[i] >= 0, op, ": sample ", i,
                " has ", input_lengths[i], " of ", s.time, " steps, ", target_lengths[i], " targets");
    longest = std::max(longest, target_lengths[i]), total += target_lengths[i];
  }
  s.size = 2 * longest + 1;
  const Tensor given = targets.to(at::kCPU).to(at::kLong).contiguous();
  const bool rows = given.dim() == 2;
  TORCH_CHECK(rows ? given.size(0) == s.n && given.size(1) >= longest : given.numel() == total, op,
              ": the target lengths do not fit targets of sizes ", targets.sizes());
  std::vector<std::int64_t> label(n * static_cast<std::size_t>(s.size), blank);
  const std::int64_t* from = given.const_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::int64_t k = 0; k < target_lengths[i]; ++k) {
      TORCH_CHECK(from[k] >= 0 && from[k] < s.x.size(2), op, ": target ", from[k], " is not a class");
      label[i * static_cast<std::size_t>(s.size) + static_cast<std::size_t>(2 * k + 1)] = from[k];
    }
    from += rows ? given.size(1) : target_lengths[i];
  }
  const c10::Device device = s.x.device();
  s.label = at::tensor(label, at::TensorOptions(at::kLong)).view({s.n, s.size}).to(device);
  s.emit = s.x.gather(2, s.label.unsqueeze(0).expand({s.time, s.n, s.size})).contiguous();
  Tensor skips = at::zeros({s.n, s.size}, s.label.options().dtype(at::kBool));
  if (s.size > 2) {
    const Tensor here = s.label.narrow(1, 2, s.size - 2), before = s.label.narrow(1, 0, s.size - 2);
    skips.narrow(1, 2, s.size - 2).copy_(here.ne(blank).logical_and(here.ne(before)));
  }
  s.skips = skips;
  s.steps = at::tensor(input_lengths, at::TensorOptions(at::kLong)).to(device);
  s.last = at::tensor(target_lengths, at::TensorOptions(at::kLong)).mul(2).to(device);
  s.place = at::arange(s.size, s.label.options()).unsqueeze(0);
  return s;
}

Tensor nothing(const States& s, std::int64_t width) { return at::full({s.n, width}, kMinusInfinity, s.x.options()); }
Tensor or_nothing(const Tensor& condition, const Tensor& value) {
  return at::where(condition, value, at::scalar_tensor(kMinusInfinity, value.options()));
}

// log((e^a + e^b) + e^c) from the largest; of nothing -inf.
Tensor log_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Tensor largest = at::maximum(at::maximum(a, b), c);
  const Tensor m = largest.masked_fill(largest.eq(kMinusInfinity), 0.0);
  return a.sub(m).exp().add(b.sub(m).exp()).add(c.sub(m).exp()).log().add(m);
}

// The states `by` places before (or behind, for negative ones); none where there is no such state.
Tensor moved(const States& s, const Tensor& t, std::int64_t by) {
  const std::int64_t distance = std::min(by < 0 ? -by : by, s.size), rest = s.size - distance;
  if (by > 0) return at::cat({nothing(s, distance), t.narrow(1, 0, rest)}, 1);
  return at::cat({t.narrow(1, distance, rest), nothing(s, distance)}, 1);
}

// [n, time, L]
Tensor host_alphas(const States& s) {
  const Tensor alpha = new_tensor({s.n, s.time, s.size}, at::kFloat);
  const auto* emit = s.emit.const_data_ptr<float>();
  const auto* last = s.last.const_data_ptr<std::int64_t>();
  auto* to = alpha.mutable_data_ptr<float>();
  const std::int64_t stride = s.time * s.size;
  for (std::int64_t i = 0; i < s.n; ++i)
    for (std::int64_t k = 0; k < s.size; ++k)
      to[i * stride + k] = k <= 1 && k <= last[i] ? emit[i * s.size + k] : static_cast<float>(kMinusInfinity);
  CtcRecurrence recurrence(s.n, s.size, s.skips.const_data_ptr<bool>(), 1);
  for (std::int64_t t = 1; t < s.time; ++t, to += s.size)
    recurrence.step(to, stride, emit + t * s.n * s.size, to + s.size, stride);
  return alpha;
}
Tensor alphas_of(const States& s) {
  if (s.time == 0) return at::zeros({s.n, 0, s.size}, s.x.options());
  if (s.x.is_cpu()) return host_alphas(s);
  std::vector<Tensor> alphas = {or_nothing(s.place.le(1).logical_and(s.place.le(s.last.unsqueeze(1))), s.emit[0])};
  for (std::int64_t t = 1; t < s.time; ++t) {
    const Tensor before = alphas.back();
    alphas.push_back(log_sum(before, moved(s, before, 1), or_nothing(s.skips, moved(s, before, 2))).add(s.emit[t]));
  }
  return at::stack(alphas, 1);
}

// [time, n, L]; ends: the states that a sample may end in; may_skip: those that the state two further on may follow.
Tensor host_betas(const States& s, const Tensor& ends, const Tensor& may_skip) {
  const Tensor beta = new_tensor({s.time, s.n, s.size}, at::kFloat);
  const std::int64_t width = s.n * s.size;
  const auto* steps = s.steps.const_data_ptr<std::int64_t>();
  const auto* is_end = ends.const_data_ptr<bool>();
  std::vector<float> none(static_cast<std::size_t>(width), static_cast<float>(kMinusInfinity));
  const float* after = none.data();
  CtcRecurrence recurrence(s.n, s.size, may_skip.const_data_ptr<bool>(), -1);
  for (std::int64_t t = s.time - 1; t >= 0; --t) {
    const float* const emit = s.emit.const_data_ptr<float>() + t * width;
    float* const to = beta.mutable_data_ptr<float>() + t * width;
    recurrence.step(after, s.size, emit, to, s.size);
    for (std::int64_t i = 0, at = 0; i < s.n; ++i)
      for (std::int64_t k = 0; k < s.size; ++k, ++at) {
        if (steps[i] > t + 1) continue;
        to[at] = steps[i] == t + 1 && is_end[at] ? emit[at] : static_cast<float>(kMinusInfinity);
      }
    after = to;
  }
  return beta;
}
Tensor betas_of(const States& s) {
  const Tensor last = s.last.unsqueeze(1), steps = s.steps.unsqueeze(1);
  const Tensor ends = s.place.eq(last).logical_or(s.place.eq(last.sub(1)));
  const Tensor may_skip =
      at::cat({s.skips.to(at::kLong), at::zeros({s.n, 2}, s.label.options())}, 1).narrow(1, 2, s.size).gt(0);
  if (s.x.is_cpu()) return host_betas(s, ends.contiguous(), may_skip.contiguous());
  std::vector<Tensor> betas(static_cast<std::size_t>(s.time));
  Tensor after = nothing(s, s.size);
  for (std::int64_t t = s.time - 1; t >= 0; --t) {
    const Tensor emit = s.emit[t];
    const Tensor step = log_sum(after, moved(s, after, -1), or_nothing(may_skip, moved(s, after, -2))).add(emit);
    after = at::where(steps.eq(t + 1), or_nothing(ends, emit), or_nothing(steps.gt(t + 1), step));
    betas[static_cast<std::size_t>(t)] = after;
  }
  return at::stack(betas, 0);
}

std::tuple<Tensor, Tensor> forward(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                                   IntArrayRef target_lengths, std::int64_t blank, bool /*zero_infinity*/) {
  const States s = states_of(kForward, log_probs, targets, input_lengths, target_lengths, blank);
  const Tensor alpha = alphas_of(s);
  if (s.time == 0) {
    const Tensor zero = at::zeros({s.n}, s.x.options());
    return {at::where(s.last.eq(0), zero, at::full({s.n}, -kMinusInfinity, s.x.options())), alpha};
  }
  const Tensor end = alpha.gather(1, s.steps.sub(1).clamp_min(0).view({s.n, 1, 1}).expand({s.n, 1, s.size})).squeeze(1);
  const Tensor blank_end = end.gather(1, s.last.unsqueeze(1)).squeeze(1);
  const Tensor label_end = end.gather(1, s.last.sub(1).clamp_min(0).unsqueeze(1)).squeeze(1);
  const Tensor none = at::full({s.n}, kMinusInfinity, s.x.options());
  const Tensor total = log_sum(blank_end, or_nothing(s.last.gt(0), label_end), none).neg();
  const Tensor empty = at::where(s.last.eq(0), at::zeros_like(total), none.neg());
  const Tensor loss = at::where(s.steps.gt(0), total, empty);
  return {log_probs.dim() == 2 ? loss.squeeze(0) : loss, alpha};
}

Tensor backward(const Tensor& dy, const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                IntArrayRef target_lengths, const Tensor& loss, const Tensor& log_alpha, std::int64_t blank,
                bool zero_infinity) {
  require_float(kBackward, {&dy, &loss, &log_alpha});
  const States s = states_of(kBackward, log_probs, targets, input_lengths, target_lengths, blank);
  if (s.time == 0) return at::zeros_like(log_probs);
  const Tensor both = log_alpha.transpose(0, 1).add(betas_of(s)), column = loss.reshape({1, s.n, 1});
  const Tensor share = both.sub(s.emit).add(column).exp().masked_fill(both.eq(kMinusInfinity), 0.0);
  const Tensor met =
      at::zeros(s.x.sizes(), s.x.options()).scatter_add(2, s.label.unsqueeze(0).expand({s.time, s.n, s.size}), share);
  Tensor dx = s.x.exp().sub(met).mul(dy.reshape({1, s.n, 1}));
  const double unbounded = zero_infinity ? 0.0 : std::numeric_limits<double>::quiet_NaN();
  dx = dx.masked_fill(column.eq(-kMinusInfinity), unbounded);
  const Tensor time = at::arange(s.time, s.label.options()).view({s.time, 1, 1});
  return dx.masked_fill(time.ge(s.steps.view({1, s.n, 1})), 0.0).view(log_probs.sizes());
}

std::vector<std::int64_t> lengths_of(const Tensor& lengths) {
  const Tensor host = lengths.to(at::kCPU).to(at::kLong).contiguous();
  const std::int64_t* first = host.const_data_ptr<std::int64_t>();
  return {first, first + host.numel()};
}
std::tuple<Tensor, Tensor> forward_of_tensors(const Tensor& log_probs, const Tensor& targets,
                                              const Tensor& input_lengths, const Tensor& target_lengths,
                                              std::int64_t blank, bool zero_infinity) {
  return forward(log_probs, targets, lengths_of(input_lengths), lengths_of(target_lengths), blank, zero_infinity);
}
Tensor backward_of_tensors(const Tensor& dy, const Tensor& log_probs, const Tensor& targets,
                           const Tensor& input_lengths, const Tensor& target_lengths, const Tensor& loss,
                           const Tensor& log_alpha, std::int64_t blank, bool zero_infinity) {
  return backward(dy, log_probs, targets, lengths_of(input_lengths), lengths_of(target_lengths), loss, log_alpha, blank,
                  zero_infinity);
}

// Stock asks whether another kernel takes over.
template <int library>
bool by(const Tensor&, const Tensor&, IntArrayRef, IntArrayRef, std::int64_t) {
  return false;
}
template <int library>
bool by_of_tensors(const Tensor&, const Tensor&, const Tensor&, const Tensor&, std::int64_t) {
  return false;
}

}  // namespace

std::vector<Entry> ctc_operators() {
  constexpr std::string_view chain = "8: log(e^a + e^b + e^c) from their largest, step after step";
  constexpr std::string_view never = "8: never, the formula is ours";
  constexpr DeviceRules kHostTargets{DeviceIntegers::ours, false, false, true};
  return {
      certify<forward, kHostTargets>(kForward, "", chain),
      certify<forward_of_tensors, kHostTargets>(kForward, "Tensor", chain),
      certify<backward, kHostTargets>(kBackward, "", chain),
      certify<backward_of_tensors, kHostTargets>(kBackward, "Tensor", chain),
      certify<by<0>, kHostTargets>("aten::_use_cudnn_ctc_loss", "", never),
      certify<by_of_tensors<0>, kHostTargets>("aten::_use_cudnn_ctc_loss", "Tensor", never),
      certify<by<1>, kHostTargets>("aten::_use_miopen_ctc_loss", "", never),
      certify<by_of_tensors<1>, kHostTargets>("aten::_use_miopen_ctc_loss", "Tensor", never),
  };
}

}  // namespace isobit::aten
