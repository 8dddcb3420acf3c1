// Losses of one term per element (contract, sections 8 and 10), the margin losses, and nll_loss over images.
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/pointwise.h"
#include "aten/device_work.h"
#include "contract/lane_sum.h"
#include "kernels/activation.h"
#include "kernels/float_environment.h"
#include "kernels/loss.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::BinaryWith;
using kernels::Reduction;
using kernels::TernaryWith;
using Optional = std::optional<Tensor>;

bool given(const Optional& tensor) { return tensor && tensor->defined(); }

Tensor reduced(const Tensor& terms, std::int64_t reduction) {
  if (static_cast<Reduction>(reduction) == Reduction::none) return terms;
  return static_cast<Reduction>(reduction) == Reduction::mean ? terms.mean() : terms.sum();
}
Tensor term(const char* op, BinaryWith formula, double parameter, const Tensor& x, const Tensor& target) {
  require_computed(op, {&x, &target});
  return pointwise_new<2>(op, {x, target}, [&](const auto& in, auto* y, std::int64_t n) {
    kernels::binary_with(formula, {like(y, parameter)}, in[0], in[1], y, n);
  });
}
// As most programs have them: one pass over both, and their gradient of a number of the host.
bool agree(const Tensor& x, const Tensor& target) {
  return (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) && x.scalar_type() == target.scalar_type() &&
         x.sizes() == target.sizes() && x.device() == target.device();
}
bool is_one_number(const Tensor& dy, const Tensor& x) {
  return dy.dim() == 0 && dy.scalar_type() == x.scalar_type() && dy.is_cpu() && x.is_cpu();
}
// The share of an element: 1, or RN(1 / n) under a mean.
Tensor term_gradient(const char* op, TernaryWith formula, double parameter, const Tensor& dy, const Tensor& x,
                     const Tensor& target, std::int64_t reduction) {
  require_computed(op, {&dy, &x, &target});
  const auto parameters = [&](auto* dx, std::int64_t n) {
    const bool mean = static_cast<Reduction>(reduction) == Reduction::mean;
    return std::array{like(dx, parameter), like(dx, mean ? 1.0 / static_cast<double>(n) : 1.0)};
  };
  if (agree(x, target) && is_one_number(dy, x)) {
    return pointwise_new<2>(op, {x, target}, [&](const auto& in, auto* dx, std::int64_t n) {
      // As many copies of dy as stay in a cache.
      const std::int64_t together = std::min<std::int64_t>(n, std::int64_t{8192} * kernels::thread_count());
      const std::vector copies(static_cast<std::size_t>(together), *data_like(dx, dy));
      const auto [a, share] = parameters(dx, n);
      for (std::int64_t i = 0; i < n; i += together) {
        kernels::ternary_with(formula, {a, share}, copies.data(), in[0] + i, in[1] + i, dx + i,
                              std::min(together, n - i));
      }
    });
  }
  return pointwise_new<3>(op, {dy, x, target}, [&](const auto& in, auto* dx, std::int64_t n) {
    const auto [a, share] = parameters(dx, n);
    kernels::ternary_with(formula, {a, share}, in[0], in[1], in[2], dx, n);
  });
}
Tensor& give(const char* op, Tensor& out, const Tensor& result) { return float_out(op, result, out); }

// ---- squared error

Tensor mse(const Tensor& x, const Tensor& target, std::int64_t reduction) {
  constexpr const char* kName = "aten::mse_loss";
  if (agree(x, target)) return reduced(term(kName, BinaryWith::squared_error, 0, x, target), reduction);
  require_computed(kName, {&x, &target});
  Tensor difference = x.sub(target);  // nobody else's, so squared where it lies
  return reduced(difference.square_(), reduction);
}
Tensor& mse_out(const Tensor& x, const Tensor& target, std::int64_t reduction, Tensor& out) {
  return give("aten::mse_loss", out, mse(x, target, reduction));
}
Tensor mse_backward(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction) {
  constexpr const char* kName = "aten::mse_loss_backward";
  require_computed(kName, {&dy, &x, &target});
  const bool mean = static_cast<Reduction>(reduction) == Reduction::mean;
  if (agree(x, target) && is_one_number(dy, x)) {
    return pointwise_new<2>(kName, {x, target}, [&](const auto& in, auto* dx, std::int64_t n) {
      const auto twice = like(dx, mean ? 2.0 / static_cast<double>(n) : 2.0);
      kernels::binary_with(BinaryWith::squared_error_backward, {twice, *data_like(dx, dy)}, in[0], in[1], dx, n);
    });
  }
  Tensor difference = x.sub(target);
  difference.mul_(mean ? 2.0 / static_cast<double>(difference.numel()) : 2.0);
  const bool fits = dy.scalar_type() == difference.scalar_type() && (dy.dim() == 0 || dy.sizes() == difference.sizes());
  return fits ? difference.mul_(dy) : difference.mul(dy);
}
Tensor& mse_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction, Tensor& out) {
  return give("aten::mse_loss_backward", out, mse_backward(dy, x, target, reduction));
}

// ---- smooth L1, Huber

Tensor smooth_l1(const Tensor& x, const Tensor& target, std::int64_t reduction, double beta) {
  TORCH_CHECK(beta >= 0, "aten::smooth_l1_loss: beta must not be negative, got ", beta);
  return reduced(term("aten::smooth_l1_loss", BinaryWith::smooth_l1, beta, x, target), reduction);
}
Tensor& smooth_l1_out(const Tensor& x, const Tensor& target, std::int64_t reduction, double beta, Tensor& out) {
  return give("aten::smooth_l1_loss", out, smooth_l1(x, target, reduction, beta));
}
Tensor smooth_l1_backward(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction,
                          double beta) {
  return term_gradient("aten::smooth_l1_loss_backward", TernaryWith::smooth_l1_backward, beta, dy, x, target,
                       reduction);
}
Tensor& smooth_l1_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction,
                               double beta, Tensor& dx) {
  return give("aten::smooth_l1_loss_backward", dx, smooth_l1_backward(dy, x, target, reduction, beta));
}
Tensor huber(const Tensor& x, const Tensor& target, std::int64_t reduction, double delta) {
  TORCH_CHECK(delta > 0, "aten::huber_loss: delta must be positive, got ", delta);
  return reduced(term("aten::huber_loss", BinaryWith::huber, delta, x, target), reduction);
}
Tensor& huber_out(const Tensor& x, const Tensor& target, std::int64_t reduction, double delta, Tensor& out) {
  return give("aten::huber_loss", out, huber(x, target, reduction, delta));
}
Tensor huber_backward(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction, double delta) {
  return term_gradient("aten::huber_loss_backward", TernaryWith::huber_backward, delta, dy, x, target, reduction);
}
Tensor& huber_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction,
                           double delta, Tensor& dx) {
  return give("aten::huber_loss_backward", dx, huber_backward(dy, x, target, reduction, delta));
}

// ---- binary cross entropy of probabilities

Tensor bce(const Tensor& x, const Tensor& target, const Optional& weight, std::int64_t reduction) {
  TORCH_CHECK(x.sizes() == target.sizes(), "aten::binary_cross_entropy: input has sizes ", x.sizes(), ", target ",
              target.sizes());
  // Stock's check; on a device it would have to be waited for, and the logarithm gives NaN.
  TORCH_CHECK(working_device() != nullptr || x.ge(0).logical_and_(x.le(1)).all().item<bool>(),
              "aten::binary_cross_entropy: all elements of input should be between 0 and 1");
  const Tensor terms = term("aten::binary_cross_entropy", BinaryWith::binary_cross_entropy, 0, x, target);
  return reduced(given(weight) ? terms.mul(*weight) : terms, reduction);
}
Tensor& bce_out(const Tensor& x, const Tensor& target, const Optional& weight, std::int64_t reduction, Tensor& out) {
  return give("aten::binary_cross_entropy", out, bce(x, target, weight, reduction));
}
Tensor bce_backward(const Tensor& dy, const Tensor& x, const Tensor& target, const Optional& weight,
                    std::int64_t reduction) {
  const Tensor dx = term_gradient("aten::binary_cross_entropy_backward", TernaryWith::binary_cross_entropy_backward, 0,
                                  dy, x, target, reduction);
  return given(weight) ? dx.mul(*weight) : dx;
}
Tensor& bce_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, const Optional& weight,
                         std::int64_t reduction, Tensor& dx) {
  return give("aten::binary_cross_entropy_backward", dx, bce_backward(dy, x, target, weight, reduction));
}

// ---- nll_loss over [n, classes, h, w]: nll_loss of the rows (n, h, w)

Tensor rows_of(const Tensor& x) { return x.permute({0, 2, 3, 1}).reshape({-1, x.size(1)}); }

void check_image(const char* op, const Tensor& x, const Tensor& target) {
  require_computed(op, x.scalar_type());
  TORCH_CHECK(x.dim() == 4 && target.dim() == 3 && x.size(0) == target.size(0) && x.size(2) == target.size(1) &&
                  x.size(3) == target.size(2),
              op, ": [n, classes, h, w] and [n, h, w] expected, got ", x.sizes(), " and ", target.sizes());
}
// The loss of an image's points where its scores lie, a class after the other; kernels/loss.h has the formulas, and the
// order: points in row-major order.
struct ImageLoss {
  std::int64_t n, classes, points, ignore_index;
  Reduction reduction;
  Tensor target, weight;

  template <class T>
  [[nodiscard]] const T* weights() const {
    return weight.defined() ? weight.const_data_ptr<T>() : nullptr;
  }
  // use(place of the score, target, the point's number) for each point that counts, ignored(number) for others.
  template <class Use, class Ignored>
  void for_points(const char* op, Use use, Ignored ignored) const {
    const std::int64_t* const to = target.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < n * points; ++i) {
      TORCH_CHECK_INDEX(to[i] == ignore_index || (to[i] >= 0 && to[i] < classes), op, ": target ", to[i], " of row ", i,
                        " is out of bounds for ", classes, " classes");
    }
    for (std::int64_t image = 0, i = 0; image < n; ++image) {
      for (std::int64_t p = 0; p < points; ++p, ++i) {
        if (to[i] == ignore_index) {
          ignored(i);
        } else {
          use((image * classes + to[i]) * points + p, to[i], i);
        }
      }
    }
  }
};
// Where it is: on the host, for targets and weights as nll_loss takes them.
std::optional<ImageLoss> image_loss(const Tensor& x, const Tensor& target, const Optional& weight,
                                    std::int64_t reduction, std::int64_t ignore_index) {
  if (working_device() != nullptr || target.scalar_type() != at::kLong) return {};
  if (given(weight) && (weight->scalar_type() != x.scalar_type() || weight->dim() != 1 || weight->size(0) != x.size(1)))
    return {};
  return ImageLoss{x.size(0),
                   x.size(1),
                   x.size(2) * x.size(3),
                   ignore_index,
                   static_cast<Reduction>(reduction),
                   contiguous(target),
                   given(weight) ? contiguous(*weight) : Tensor()};
}

std::tuple<Tensor, Tensor> nll2d(const Tensor& x, const Tensor& target, const Optional& weight, std::int64_t reduction,
                                 std::int64_t ignore_index) {
  constexpr const char* op = "aten::nll_loss2d_forward";
  check_image(op, x, target);
  const bool each = static_cast<Reduction>(reduction) == Reduction::none;
  const std::optional<ImageLoss> image = image_loss(x, target, weight, reduction, ignore_index);
  if (!image) {
    const auto [loss, total] = at::nll_loss_forward(rows_of(x), target.flatten(), weight, reduction, ignore_index);
    return {each ? loss.view(target.sizes()) : loss, total};
  }
  const Tensor scores = contiguous(x), total = new_tensor({}, x.scalar_type());
  const Tensor loss = new_tensor(each ? target.sizes() : at::IntArrayRef(), x.scalar_type());
  with_data(loss, [&](auto* y) {
    using T = std::remove_pointer_t<decltype(y)>;
    const kernels::FloatEnvironment environment;
    const T *const from = data_like(y, scores), *const w = image->weights<T>();
    contract::LaneSumOf<T> terms, weights;
    const auto add = [&](std::int64_t i, T term, T by) {
      if (each) y[i] = term;
      terms.add(term), weights.add(by);
    };
    image->for_points(
        op,
        [&](std::int64_t at, std::int64_t t, std::int64_t i) {
          add(i, w ? -(w[t] * from[at]) : -from[at], w ? w[t] : T(1));
        },
        [&](std::int64_t i) { add(i, T(0), T(0)); });
    T& all = *total.mutable_data_ptr<T>();
    all = weights.result();
    if (image->reduction == Reduction::sum) *y = terms.result();
    if (image->reduction == Reduction::mean) *y = terms.result() / all;
  });
  return {loss, total};
}
std::tuple<Tensor&, Tensor&> nll2d_out(const Tensor& x, const Tensor& target, const Optional& weight,
                                       std::int64_t reduction, std::int64_t ignore_index, Tensor& loss, Tensor& total) {
  const auto [l, t] = nll2d(x, target, weight, reduction, ignore_index);
  give("aten::nll_loss2d_forward", loss, l);
  give("aten::nll_loss2d_forward", total, t);
  return {loss, total};
}
Tensor nll2d_backward(const Tensor& dy, const Tensor& x, const Tensor& target, const Optional& weight,
                      std::int64_t reduction, std::int64_t ignore_index, const Tensor& total) {
  check_image("aten::nll_loss2d_backward", x, target);
  const bool each = static_cast<Reduction>(reduction) == Reduction::none;
  const std::optional<ImageLoss> image = image_loss(x, target, weight, reduction, ignore_index);
  if (!image || (each ? dy.sizes() != target.sizes() : dy.numel() != 1) || total.numel() != 1) {
    const Tensor rows = at::nll_loss_backward(each ? dy.flatten() : dy, rows_of(x), target.flatten(), weight, reduction,
                                              ignore_index, total);
    return contiguous(rows.view({x.size(0), x.size(2), x.size(3), x.size(1)}).permute({0, 3, 1, 2}));
  }
  require_computed("aten::nll_loss2d_backward", {&x, &dy, &total});
  const Tensor dx = new_tensor(x.sizes(), x.scalar_type()).zero_(), from = contiguous(dy);
  with_data(dx, [&](auto* to) {
    using T = std::remove_pointer_t<decltype(to)>;
    const kernels::FloatEnvironment environment;
    const T *const g = data_like(to, from), *const w = image->weights<T>();
    const T share = image->reduction == Reduction::mean ? *g / *total.const_data_ptr<T>() : each ? T(0) : *g;
    image->for_points(
        "aten::nll_loss2d_backward",
        [&](std::int64_t at, std::int64_t t, std::int64_t i) {
          const T of_point = each ? g[i] : share;
          to[at] = w ? -(w[t] * of_point) : -of_point;
        },
        [](std::int64_t) {});
  });
  return dx;
}
Tensor& nll2d_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, const Optional& weight,
                           std::int64_t reduction, std::int64_t ignore_index, const Tensor& total, Tensor& dx) {
  return give("aten::nll_loss2d_backward", dx, nll2d_backward(dy, x, target, weight, reduction, ignore_index, total));
}

// One row of scores, or a single score, as a matrix.
Tensor as_rows(const Tensor& x) { return x.dim() == 2 ? x : x.reshape({1, x.numel()}); }

// ---- multi margin: for i other than the target t, max(0, margin - x[t] + x[i])^p * weight[t] / classes, summed over i

struct Margins {
  Tensor index, z, weight;  // [n, 1]; [n, classes], +0 at the target; [n, 1] or undefined
};
Margins margins(const char* op, const Tensor& given_x, const Tensor& given_target, const Scalar& p,
                const Scalar& margin, const Optional& weight) {
  require_float(op, given_x);
  TORCH_CHECK(p.toDouble() == 1 || p.toDouble() == 2, op, ": p is 1 or 2");
  TORCH_CHECK(given_x.dim() <= 2, op, ": [n, classes] expected, got ", given_x.sizes());
  const Tensor x = as_rows(given_x);
  TORCH_CHECK(given_target.numel() == x.size(0), op, ": one target per row expected, got ", given_target.sizes());
  const Tensor index = given_target.reshape({-1, 1});
  const Tensor z = x.sub(x.gather(1, index)).add(margin).clamp_min(0).scatter(1, index, 0.0);
  return {index, z, weight && weight->defined() ? weight->index_select(0, index.flatten()).unsqueeze(1) : Tensor()};
}
Tensor multi_margin(const Tensor& x, const Tensor& target, const Scalar& p, const Scalar& margin,
                    const Optional& weight, std::int64_t reduction) {
  const Margins m = margins("aten::multi_margin_loss", x, target, p, margin, weight);
  Tensor terms = p.toDouble() == 2 ? m.z.square() : m.z;
  if (m.weight.defined()) terms = terms.mul(m.weight);
  const Tensor losses = terms.sum(1).div(static_cast<double>(terms.size(1)));
  return reduced(x.dim() < 2 ? losses.squeeze(0) : losses, reduction);
}
Tensor& multi_margin_out(const Tensor& x, const Tensor& target, const Scalar& p, const Scalar& margin,
                         const Optional& weight, std::int64_t reduction, Tensor& out) {
  return give("aten::multi_margin_loss", out, multi_margin(x, target, p, margin, weight, reduction));
}
Tensor multi_margin_backward(const Tensor& dy, const Tensor& x, const Tensor& target, const Scalar& p,
                             const Scalar& margin, const Optional& weight, std::int64_t reduction) {
  const Margins m = margins("aten::multi_margin_loss_backward", x, target, p, margin, weight);
  Tensor slope = p.toDouble() == 2 ? m.z.mul(2.0) : m.z.gt(0).to(at::kFloat);
  if (m.weight.defined()) slope = slope.mul(m.weight);
  const bool mean = static_cast<Reduction>(reduction) == Reduction::mean;
  const double count = static_cast<double>(slope.size(1)) * static_cast<double>(mean ? slope.size(0) : 1);
  slope = slope.div(count).mul(dy.dim() == 0 ? dy : dy.reshape({-1, 1}));
  return slope.scatter(1, m.index, slope.sum(1, /*keepdim=*/true).neg()).view(x.sizes());
}
Tensor& multi_margin_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, const Scalar& p,
                                  const Scalar& margin, const Optional& weight, std::int64_t reduction, Tensor& dx) {
  return give("aten::multi_margin_loss_backward", dx,
              multi_margin_backward(dy, x, target, p, margin, weight, reduction));
}

// ---- multilabel margin: targets of a row up to the first negative one; for each target t and each other class i
// max(0, 1 - (x[t] - x[i])) / classes, section 4 sums over i, then t

struct Labels {
  Tensor x, index, valid, is_target;  // [n, classes] each; index clamped to 0, valid and is_target 0 or 1
  Tensor hinge;                       // [n, target, other]
};
Labels labels(const char* op, const Tensor& given_x, const Tensor& given_target) {
  require_float(op, given_x);
  TORCH_CHECK(given_x.sizes() == given_target.sizes() && given_x.dim() <= 2, op,
              ": [n, classes] and targets of the same sizes expected, got ", given_x.sizes(), " and ",
              given_target.sizes());
  Labels l;
  l.x = as_rows(given_x);
  const Tensor target = given_target.view(l.x.sizes());
  const Tensor valid = target.ge(0).to(at::kLong).cumprod(1);
  l.index = target.mul(valid);
  l.valid = valid.to(at::kFloat);
  l.is_target = at::zeros_like(target).scatter_add(1, l.index, valid).gt(0).to(at::kFloat);
  const Tensor difference = l.x.gather(1, l.index).unsqueeze(2).sub(l.x.unsqueeze(1));
  l.hinge =
      difference.neg().add(1.0).clamp_min(0).mul(l.valid.unsqueeze(2)).mul(l.is_target.neg().add(1.0).unsqueeze(1));
  return l;
}
std::tuple<Tensor, Tensor> multilabel(const Tensor& x, const Tensor& target, std::int64_t reduction) {
  const Labels l = labels("aten::multilabel_margin_loss_forward", x, target);
  const Tensor losses = l.hinge.sum(2).sum(1).div(static_cast<double>(l.x.size(1)));
  return {reduced(x.dim() < 2 ? losses.squeeze(0) : losses, reduction), l.is_target.view(target.sizes())};
}
std::tuple<Tensor&, Tensor&> multilabel_out(const Tensor& x, const Tensor& target, std::int64_t reduction, Tensor& out,
                                            Tensor& is_target) {
  const auto [loss, marks] = multilabel(x, target, reduction);
  give("aten::multilabel_margin_loss_forward", out, loss);
  give("aten::multilabel_margin_loss_forward", is_target, marks);
  return {out, is_target};
}
Tensor multilabel_backward(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction,
                           const Tensor& /*is_target*/) {
  const Labels l = labels("aten::multilabel_margin_loss_backward", x, target);
  const bool mean = static_cast<Reduction>(reduction) == Reduction::mean;
  const double count = static_cast<double>(l.x.size(1)) * static_cast<double>(mean ? l.x.size(0) : 1);
  const Tensor active = l.hinge.gt(0).to(at::kFloat);  // counts: their sums are exact
  const Tensor slope = active.sum(1).scatter_add(1, l.index, active.sum(2).neg());
  return slope.div(count).mul(dy.dim() == 0 ? dy : dy.reshape({-1, 1})).view(x.sizes());
}
Tensor& multilabel_backward_out(const Tensor& dy, const Tensor& x, const Tensor& target, std::int64_t reduction,
                                const Tensor& is_target, Tensor& dx) {
  return give("aten::multilabel_margin_loss_backward", dx, multilabel_backward(dy, x, target, reduction, is_target));
}

}  // namespace

std::vector<Entry> loss_term_operators() {
  constexpr std::string_view smooth = "10: z = abs(x - t); z < beta ? ((0.5 * z) * z) / beta : z - 0.5 * beta";
  constexpr std::string_view huber_section =
      "10: z = abs(x - t); z <= delta ? (0.5 * z) * z : delta * (z - 0.5 * delta)";
  constexpr std::string_view bce_section = "10: (t - 1) * max(log1p(-x), -100) - t * max(log(x), -100)";
  constexpr std::string_view rows = "8: nll_loss of the rows (n, h, w)";
  constexpr std::string_view margin = "8: max(0, x - x[t] + margin)^p over the other classes, section 4 sums";
  return {
      certify<mse>("aten::mse_loss", "", "8: d = x - target, d * d, section 4 sum or mean"),
      certify<mse_out>("aten::mse_loss", "out", "8: d = x - target, d * d, section 4 sum or mean"),
      certify<mse_backward>("aten::mse_loss_backward", "", "8: (d * RN(2 or 2 / n)) * dy"),
      certify<mse_backward_out>("aten::mse_loss_backward", "grad_input", "8: (d * RN(2 or 2 / n)) * dy"),
      certify<smooth_l1>("aten::smooth_l1_loss", "", smooth),
      certify<smooth_l1_out>("aten::smooth_l1_loss", "out", smooth),
      certify<smooth_l1_backward>("aten::smooth_l1_loss_backward", "", smooth),
      certify<smooth_l1_backward_out>("aten::smooth_l1_loss_backward", "grad_input", smooth),
      certify<huber>("aten::huber_loss", "", huber_section),
      certify<huber_out>("aten::huber_loss", "out", huber_section),
      certify<huber_backward>("aten::huber_loss_backward", "", huber_section),
      certify<huber_backward_out>("aten::huber_loss_backward", "out", huber_section),
      certify<bce>("aten::binary_cross_entropy", "", bce_section),
      certify<bce_out>("aten::binary_cross_entropy", "out", bce_section),
      certify<bce_backward>("aten::binary_cross_entropy_backward", "", bce_section),
      certify<bce_backward_out>("aten::binary_cross_entropy_backward", "grad_input", bce_section),
      certify<nll2d>("aten::nll_loss2d_forward", "", rows),
      certify<nll2d_out>("aten::nll_loss2d_forward", "output", rows),
      certify<nll2d_backward>("aten::nll_loss2d_backward", "", rows),
      certify<nll2d_backward_out>("aten::nll_loss2d_backward", "grad_input", rows),
      certify<multi_margin>("aten::multi_margin_loss", "", margin),
      certify<multi_margin_out>("aten::multi_margin_loss", "out", margin),
      certify<multi_margin_backward>("aten::multi_margin_loss_backward", "", margin),
      certify<multi_margin_backward_out>("aten::multi_margin_loss_backward", "grad_input", margin),
      certify<multilabel>("aten::multilabel_margin_loss_forward", "", margin),
      certify<multilabel_out>("aten::multilabel_margin_loss_forward", "output", margin),
      certify<multilabel_backward>("aten::multilabel_margin_loss_backward", "", margin),
      certify<multilabel_backward_out>("aten::multilabel_margin_loss_backward", "grad_input", margin),
  };
}

}  // namespace isobit::aten
