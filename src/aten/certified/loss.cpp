// Negative log-likelihood (contract, section 8) of [n, classes] or [classes]; cross_entropy reaches it after
// log_softmax. Class probabilities and label smoothing are composed from other operators by torch.
#include "kernels/loss.h"

#include <optional>
#include <tuple>
#include <type_traits>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::NllShape;
using kernels::Reduction;

constexpr const char* kForward = "aten::nll_loss_forward";
constexpr const char* kBackward = "aten::nll_loss_backward";

struct Problem {
  NllShape shape;
  Tensor target, weight;
  template <class T>
  const T* weights_like(const T*) const {
    return weight.defined() ? weight.const_data_ptr<T>() : nullptr;
  }
};

Problem problem_of(const char* op, const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight,
                   std::int64_t reduction, std::int64_t ignore_index) {
  require_computed(op, x.scalar_type());
  TORCH_CHECK(x.dim() == 1 || x.dim() == 2, op, ": one or two dimensions expected, got ", x.sizes());
  TORCH_CHECK(target.dim() == x.dim() - 1 || (x.dim() == 1 && target.numel() == 1), op, ": target has sizes ",
              target.sizes(), ", input ", x.sizes());
  TORCH_CHECK(x.dim() == 1 || target.size(0) == x.size(0), op, ": input of ", x.size(0), " rows, target of ",
              target.numel());
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte, op,
              ": targets must be int64 or uint8, got ", target.scalar_type());
  Problem problem;
  problem.shape.n = x.dim() == 1 ? 1 : x.size(0);
  problem.shape.classes = x.size(-1);
  problem.shape.ignore_index = ignore_index;
  problem.shape.reduction = static_cast<Reduction>(reduction);
  problem.target = contiguous(target.scalar_type() == at::kLong ? target : target.to(at::kLong));
  if (weight && weight->defined()) {
    require_computed(op, {&x, &*weight});
    TORCH_CHECK(weight->dim() == 1 && weight->size(0) == problem.shape.classes, op,
                ": one weight per class expected, got sizes ", weight->sizes());
    problem.weight = contiguous(*weight);
  }
  return problem;
}

void check_targets(const char* op, const Problem& problem, std::int64_t bad_row) {
  TORCH_CHECK_INDEX(bad_row < 0, op, ": target ", problem.target.flatten()[bad_row].item<std::int64_t>(), " of row ",
                    bad_row, " is out of bounds for ", problem.shape.classes, " classes");
}

at::DimVector loss_sizes(const Tensor& x, std::int64_t reduction) {
  if (static_cast<Reduction>(reduction) != Reduction::none || x.dim() == 1) return {};
  return {x.size(0)};
}

std::tuple<Tensor, Tensor> forward(const Tensor& input, const Tensor& target, const std::optional<Tensor>& weight,
                                   std::int64_t reduction, std::int64_t ignore_index) {
  const Problem problem = problem_of(kForward, input, target, weight, reduction, ignore_index);
  const Tensor x = contiguous(input);
  const Tensor loss = new_tensor(loss_sizes(input, reduction), x.scalar_type()),
               total = new_tensor({}, x.scalar_type());
  with_data(loss, [&](auto* y) {
    using T = std::remove_pointer_t<decltype(y)>;
    check_targets(kForward, problem,
                  kernels::nll_forward(problem.shape, data_like(y, x), problem.target.const_data_ptr<std::int64_t>(),
                                       problem.weights_like(y), y, total.mutable_data_ptr<T>()));
  });
  return {loss, total};
}
std::tuple<Tensor&, Tensor&> forward_out(const Tensor& input, const Tensor& target, const std::optional<Tensor>& weight,
                                         std::int64_t reduction, std::int64_t ignore_index, Tensor& loss,
                                         Tensor& total) {
  const auto [l, t] = forward(input, target, weight, reduction, ignore_index);
  float_out(kForward, l, loss);
  float_out(kForward, t, total);
  return {loss, total};
}

Tensor backward(const Tensor& grad_output, const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight,
                std::int64_t reduction, std::int64_t ignore_index, const Tensor& total_weight) {
  require_computed(kBackward, {&x, &grad_output, &total_weight});
  const Problem problem = problem_of(kBackward, x, target, weight, reduction, ignore_index);
  TORCH_CHECK(grad_output.numel() == (problem.shape.reduction == Reduction::none ? problem.shape.n : 1), kBackward,
              ": grad_output has sizes ", grad_output.sizes());
  const Tensor dy = contiguous(grad_output);
  return write_new(x.sizes(), x.scalar_type(), [&](auto* dx) {
    check_targets(kBackward, problem,
                  kernels::nll_backward(problem.shape, data_like(dx, dy), problem.target.const_data_ptr<std::int64_t>(),
                                        problem.weights_like(dx), data_like(dx, total_weight), dx));
  });
}
Tensor& backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, const std::optional<Tensor>& weight,
                     std::int64_t reduction, std::int64_t ignore_index, const Tensor& total_weight, Tensor& dx) {
  return float_out(kBackward, backward(dy, x, target, weight, reduction, ignore_index, total_weight), dx);
}

}  // namespace

std::vector<Entry> loss_operators() {
  constexpr std::string_view terms = "8: terms -(weight * x[target]); section 4 sum; mean: / sum of weights";
  constexpr std::string_view gradient = "8: -(weight * g) at the target, +0 elsewhere";
  return {
      certify<forward>("aten::nll_loss_forward", "", terms),
      certify<forward_out>("aten::nll_loss_forward", "output", terms),
      certify<backward>("aten::nll_loss_backward", "", gradient),
      certify<backward_out>("aten::nll_loss_backward", "grad_input", gradient),
  };
}

}  // namespace isobit::aten
