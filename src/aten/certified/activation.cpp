// Activations with parameters and their gradients (contract, section 10; formulas in contract/activations.h).
//
// celu and selu are elu; relu6 is hardtanh (unary.cpp); softsign, tanhshrink and softmin are torch's compositions.
#include "kernels/activation.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/leaky_relu.h>

#include <algorithm>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/pointwise.h"
#include "kernels/flat_elements.h"
#include "kernels/pointwise.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;
using kernels::BinaryWith;
using Parameters = kernels::ParametersOf<double>;  // rounded to the arrays' type
using kernels::TernaryWith;
using kernels::UnaryWith;

template <class T>
kernels::ParametersOf<T> parameters_like(const T*, const Parameters& p) {
  return {static_cast<T>(p.a), static_cast<T>(p.b), static_cast<T>(p.c)};
}
auto kernel_of(UnaryWith op, Parameters p) {
  return [=](const auto& x, auto* y, std::int64_t n) { kernels::unary_with(op, parameters_like(y, p), x[0], y, n); };
}
auto kernel_of(BinaryWith op, Parameters p) {
  return [=](const auto& x, auto* y, std::int64_t n) {
    kernels::binary_with(op, parameters_like(y, p), x[0], x[1], y, n);
  };
}

// ---- without parameters: mish, hardswish, hardsigmoid

constexpr std::string_view name_of(UnaryWith op) {
  switch (op) {
#define ISOBIT_CASE(name, formula, aten, ...) \
  case UnaryWith::name: return "aten::" #aten;
    ISOBIT_UNARY_WITH(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}
constexpr std::string_view name_of(BinaryWith op) {
  switch (op) {
#define ISOBIT_CASE(name, formula, aten, ...) \
  case BinaryWith::name: return "aten::" #aten;
    ISOBIT_BINARY_WITH(ISOBIT_CASE)
#undef ISOBIT_CASE
  }
  return "";
}
template <UnaryWith op>
Tensor plain(const Tensor& x) {
  return pointwise_new<1>(name_of(op), {x}, kernel_of(op, {}));
}
template <UnaryWith op>
Tensor& plain_out(const Tensor& x, Tensor& out) {
  return pointwise_out<1>(name_of(op), out, {x}, kernel_of(op, {}));
}
template <UnaryWith op>
Tensor& plain_in_place(Tensor& x) {
  return pointwise_in_place<1>(name_of(op), x, {x}, kernel_of(op, {}));
}
template <BinaryWith op>
Tensor plain_backward(const Tensor& dy, const Tensor& x) {
  return pointwise_new<2>(name_of(op), {dy, x}, kernel_of(op, {}));
}
template <BinaryWith op>
Tensor& plain_backward_out(const Tensor& dy, const Tensor& x, Tensor& dx) {
  return pointwise_out<2>(name_of(op), dx, {dy, x}, kernel_of(op, {}));
}

// ---- elu

Parameters elu_parameters(const Scalar& alpha, const Scalar& scale, const Scalar& inner) {
  return {alpha.toDouble() * scale.toDouble(), scale.toDouble(), inner.toDouble()};
}
Tensor elu(const Tensor& x, const Scalar& alpha, const Scalar& scale, const Scalar& inner) {
  return pointwise_new<1>("aten::elu", {x}, kernel_of(UnaryWith::elu, elu_parameters(alpha, scale, inner)));
}
Tensor& elu_out(const Tensor& x, const Scalar& alpha, const Scalar& scale, const Scalar& inner, Tensor& out) {
  return pointwise_out<1>("aten::elu", out, {x}, kernel_of(UnaryWith::elu, elu_parameters(alpha, scale, inner)));
}
Tensor& elu_(Tensor& x, const Scalar& alpha, const Scalar& scale, const Scalar& inner) {
  return pointwise_in_place<1>("aten::elu_", x, {x}, kernel_of(UnaryWith::elu, elu_parameters(alpha, scale, inner)));
}
auto elu_gradient(bool of_result, const Scalar& alpha, const Scalar& scale, const Scalar& inner) {
  return kernel_of(of_result ? BinaryWith::elu_backward_of_result : BinaryWith::elu_backward,
                   elu_parameters(alpha, scale, inner));
}
Tensor elu_backward(const Tensor& dy, const Scalar& alpha, const Scalar& scale, const Scalar& inner, bool of_result,
                    const Tensor& x) {
  return pointwise_new<2>("aten::elu_backward", {dy, x}, elu_gradient(of_result, alpha, scale, inner));
}
Tensor& elu_backward_out(const Tensor& dy, const Scalar& alpha, const Scalar& scale, const Scalar& inner,
                         bool of_result, const Tensor& x, Tensor& dx) {
  return pointwise_out<2>("aten::elu_backward", dx, {dy, x}, elu_gradient(of_result, alpha, scale, inner));
}

// ---- softplus

Parameters two(const Scalar& a, const Scalar& b) { return {a.toDouble(), b.toDouble()}; }
Tensor softplus(const Tensor& x, const Scalar& beta, const Scalar& threshold) {
  return pointwise_new<1>("aten::softplus", {x}, kernel_of(UnaryWith::softplus, two(beta, threshold)));
}
Tensor& softplus_out(const Tensor& x, const Scalar& beta, const Scalar& threshold, Tensor& out) {
  return pointwise_out<1>("aten::softplus", out, {x}, kernel_of(UnaryWith::softplus, two(beta, threshold)));
}
Tensor softplus_backward(const Tensor& dy, const Tensor& x, const Scalar& beta, const Scalar& threshold) {
  return pointwise_new<2>("aten::softplus_backward", {dy, x},
                          kernel_of(BinaryWith::softplus_backward, two(beta, threshold)));
}
Tensor& softplus_backward_out(const Tensor& dy, const Tensor& x, const Scalar& beta, const Scalar& threshold,
                              Tensor& dx) {
  return pointwise_out<2>("aten::softplus_backward", dx, {dy, x},
                          kernel_of(BinaryWith::softplus_backward, two(beta, threshold)));
}

// ---- softshrink, hardshrink

template <UnaryWith op>
Tensor shrink(const Tensor& x, const Scalar& lambda) {
  return pointwise_new<1>(name_of(op), {x}, kernel_of(op, {lambda.toDouble()}));
}
template <UnaryWith op>
Tensor& shrink_out(const Tensor& x, const Scalar& lambda, Tensor& out) {
  return pointwise_out<1>(name_of(op), out, {x}, kernel_of(op, {lambda.toDouble()}));
}
template <UnaryWith op>
Tensor shrink_backward(const Tensor& dy, const Tensor& x, const Scalar& lambda) {
  return pointwise_new<2>("aten::softshrink_backward", {dy, x},
                          kernel_of(BinaryWith::shrink_backward, {lambda.toDouble()}));
}
template <UnaryWith op>
Tensor& shrink_backward_out(const Tensor& dy, const Tensor& x, const Scalar& lambda, Tensor& dx) {
  return pointwise_out<2>("aten::softshrink_backward", dx, {dy, x},
                          kernel_of(BinaryWith::shrink_backward, {lambda.toDouble()}));
}

// ---- log sigmoid: the buffer is stock's, and stays empty

std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& x) {
  return {pointwise_new<1>("aten::log_sigmoid_forward", {x}, kernel_of(UnaryWith::log_sigmoid, {})),
          new_tensor({0}, is_wide(x) ? at::kDouble : at::kFloat)};
}
std::tuple<Tensor&, Tensor&> log_sigmoid_out(const Tensor& x, Tensor& out, Tensor& buffer) {
  pointwise_out<1>("aten::log_sigmoid_forward", out, {x}, kernel_of(UnaryWith::log_sigmoid, {}));
  return {out, buffer};
}
Tensor log_sigmoid_backward(const Tensor& dy, const Tensor& x, const Tensor& /*buffer*/) {
  return pointwise_new<2>("aten::log_sigmoid_backward", {dy, x}, kernel_of(BinaryWith::log_sigmoid_backward, {}));
}
Tensor& log_sigmoid_backward_out(const Tensor& dy, const Tensor& x, const Tensor& /*buffer*/, Tensor& dx) {
  return pointwise_out<2>("aten::log_sigmoid_backward", dx, {dy, x}, kernel_of(BinaryWith::log_sigmoid_backward, {}));
}

// ---- prelu

// x as rows of `length` elements with a slope for each, the slopes in turns: float32 on the host, contiguous.
// step(row's place, slope, length). False, with nothing done, where the slope is not one or one a channel, and for
// short rows.
template <class Step>
bool with_slopes(const Tensor& x, const Tensor& slope, Step step) {
  constexpr std::int64_t kShortest = 64;
  const bool fits = is_float(x) && is_float(slope) && x.is_cpu() && slope.is_cpu() && working_device() == nullptr &&
                    x.is_contiguous() && slope.is_contiguous() && slope.dim() <= x.dim() && x.numel() > 0;
  if (!fits) return false;
  const float* const slopes = slope.const_data_ptr<float>();
  if (slope.numel() == 1) return step(0, slopes[0], x.numel()), true;
  if (x.dim() < 2 || slope.dim() != x.dim() || slope.size(1) != x.size(1) || slope.numel() != x.size(1)) return false;
  const std::int64_t channels = x.size(1), rows = x.size(0) * channels, length = x.numel() / rows;
  if (length < kShortest) return false;
  kernels::parallel_for(0, rows, 16384 / length + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) step(row * length, slopes[row % channels], length);
  });
  return true;
}

Tensor prelu(const Tensor& x, const Tensor& slope) {
  if (is_float(x) && is_float(slope)) {
    const Tensor y = new_tensor(x.sizes());
    const float* const from = static_cast<const float*>(x.const_data_ptr());
    float* const to = y.mutable_data_ptr<float>();
    const auto step = [=](std::int64_t at, float by, std::int64_t n) {
      kernels::leaky_relu(from + at, by, to + at, n);
    };
    if (with_slopes(x, slope, step)) return y;
  }
  return pointwise_new<2>("aten::_prelu_kernel", {x, slope}, kernel_of(BinaryWith::prelu, {}));
}
Tensor prelu_input_gradient(const Tensor& given, const Tensor& x, const Tensor& slope) {
  if (is_float(given) && is_float(x) && given.sizes() == x.sizes() && given.is_cpu()) {
    const Tensor dx = new_tensor(x.sizes()), dy = contiguous(given);
    const float *const from = static_cast<const float*>(dy.const_data_ptr()), *const at_x = static_cast<const float*>(
                                                                                  x.const_data_ptr());
    float* const to = dx.mutable_data_ptr<float>();
    const auto step = [=](std::int64_t at, float by, std::int64_t n) {
      kernels::leaky_relu_backward(from + at, at_x + at, by, to + at, n);
    };
    if (with_slopes(x, slope, step)) return dx;
  }
  return pointwise_new<3>("aten::_prelu_kernel_backward", {given, x, slope},
                          [](const auto& in, auto* dx, std::int64_t n) {
                            kernels::ternary_with(TernaryWith::prelu_backward, {}, in[0], in[1], in[2], dx, n);
                          });
}
// Both of the broadcast sizes; autograd sums the slope's.
std::tuple<Tensor, Tensor> prelu_backward(const Tensor& dy, const Tensor& x, const Tensor& slope) {
  return {prelu_input_gradient(dy, x, slope),
          pointwise_new<2>("aten::_prelu_kernel_backward", {dy, x}, kernel_of(BinaryWith::prelu_slope_backward, {}))};
}

// ---- rrelu: a uniform slope for every element, 1 where x > 0 (stock draws for the others alone)

Tensor rrelu_slopes(const Tensor& x, const Scalar& lower, const Scalar& upper,
                    const std::optional<at::Generator>& generator) {
  const Tensor drawn = new_tensor(x.sizes(), x.scalar_type());
  drawn.uniform_(lower.toDouble(), upper.toDouble(), generator);
  return drawn.masked_fill_(x.gt(0), 1.0);
}
double mean_slope(const Scalar& lower, const Scalar& upper) { return (lower.toDouble() + upper.toDouble()) / 2; }

Tensor rrelu(const Tensor& x, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
             std::optional<at::Generator> generator) {
  require_computed("aten::rrelu_with_noise", {&x, &noise});
  if (!training) return at::leaky_relu(x, mean_slope(lower, upper));
  copy_out(noise, rrelu_slopes(x, lower, upper, generator));
  return isobit::aten::prelu(x, noise);
}
Tensor& rrelu_(Tensor& x, Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
               std::optional<at::Generator> generator) {
  return x.copy_(isobit::aten::rrelu(x, noise, lower, upper, training, std::move(generator)));
}

// ---- glu: halves a and b along a dimension, a * sigmoid(b)

struct Halves {
  Tensor a, b;
  std::int64_t dim;
};
Halves halves(const char* op, const Tensor& x, std::int64_t dim) {
  require_computed(op, x.scalar_type());
  dim = at::maybe_wrap_dim(dim, x.dim());
  TORCH_CHECK(x.dim() > 0 && x.size(dim) % 2 == 0, op, ": the size to halve must be even, got ", x.sizes());
  const std::int64_t half = x.size(dim) / 2;
  return {x.narrow(dim, 0, half), x.narrow(dim, half, half), dim};
}

constexpr std::int64_t kPiece = 1024;  // elements

// x as [outer, 2, half], read where it lies: step(place in x of a's elements, place in y, how many, half);
// b's are `half` further on. False, with nothing done, for other types, places and orders, and for short rows.
template <class Step>
bool by_rows(const Tensor& x, const Halves& h, Step step) {
  constexpr std::int64_t kShortest = 64, kWork = 8192;
  const std::int64_t outer = c10::multiply_integers(x.sizes().slice(0, static_cast<std::size_t>(h.dim)));
  const std::int64_t half = outer == 0 ? 0 : h.a.numel() / outer;
  if (half < kShortest || !is_float(x) || !x.is_contiguous() || !x.is_cpu() || working_device() != nullptr)
    return false;
  const std::int64_t pieces = (half + kPiece - 1) / kPiece;
  kernels::parallel_for(0, outer * pieces, kWork / std::min(half, kPiece), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = i / pieces, first = i % pieces * kPiece;
      step(2 * row * half + first, row * half + first, std::min(kPiece, half - first), half);
    }
  });
  return true;
}

Tensor glu(const Tensor& x, std::int64_t dim) {
  const Halves h = halves("aten::glu", x, dim);
  const Tensor y = new_tensor(h.a.sizes(), x.scalar_type());
  const auto step = [&, from = x.const_data_ptr(), to = y.mutable_data_ptr()](std::int64_t a, std::int64_t at,
                                                                              std::int64_t n, std::int64_t half) {
    const float* const in = static_cast<const float*>(from) + a;
    float* const out = static_cast<float*>(to) + at;
    kernels::unary(kernels::Unary::sigmoid, in + half, out, n);
    kernels::flat_binary(kernels::ExactBinary::multiply, in, out, out, n);
  };
  return by_rows(x, h, step) ? y : h.a.mul(h.b.sigmoid());
}
Tensor& glu_out(const Tensor& x, std::int64_t dim, Tensor& out) {
  return float_out("aten::glu", isobit::aten::glu(x, dim), out);
}
// Undefined where the rows are not read where they lie.
Tensor glu_backward_by_rows(const Tensor& dy, const Tensor& x, const Halves& h) {
  if (!is_float(dy) || dy.sizes() != h.a.sizes()) return {};
  const Tensor gradient = contiguous(dy), dx = new_tensor(x.sizes(), x.scalar_type());
  const auto step = [&, dy = static_cast<const float*>(gradient.const_data_ptr()),
                     from = static_cast<const float*>(x.const_data_ptr()),
                     to = static_cast<float*>(dx.mutable_data_ptr())](std::int64_t a, std::int64_t at, std::int64_t n,
                                                                      std::int64_t half) {
    using enum kernels::ExactBinary;
    float s[kPiece], product[kPiece];
    kernels::unary(kernels::Unary::sigmoid, from + a + half, s, n);
    kernels::flat_binary(multiply, dy + at, s, to + a, n);
    kernels::flat_binary(multiply, dy + at, from + a, product, n);
    kernels::binary(kernels::Binary::sigmoid_backward, product, s, to + a + half, n);
  };
  return by_rows(x, h, step) ? dx : Tensor();
}

Tensor glu_backward(const Tensor& dy, const Tensor& x, std::int64_t dim) {
  const Halves h = halves("aten::glu_backward", x, dim);
  if (Tensor dx = glu_backward_by_rows(dy, x, h); dx.defined()) return dx;
  const Tensor s = h.b.sigmoid(), product = contiguous(dy.mul(h.a));
  const Tensor dx = new_tensor(x.sizes(), x.scalar_type());
  dx.narrow(h.dim, 0, s.size(h.dim)).copy_(dy.mul(s));
  dx.narrow(h.dim, s.size(h.dim), s.size(h.dim))
      .copy_(pointwise_new<2>("aten::glu_backward", {product, s}, [](const auto& in, auto* db, std::int64_t n) {
        kernels::binary(kernels::Binary::sigmoid_backward, in[0], in[1], db, n);
      }));
  return dx;
}
Tensor& glu_backward_out(const Tensor& dy, const Tensor& x, std::int64_t dim, Tensor& dx) {
  return float_out("aten::glu_backward", isobit::aten::glu_backward(dy, x, dim), dx);
}

// ---- xlogy

Tensor xlogy(const Tensor& x, const Tensor& y) {
  return pointwise_new<2>("aten::xlogy", {x, y}, kernel_of(BinaryWith::xlogy, {}));
}
Tensor& xlogy_out(const Tensor& x, const Tensor& y, Tensor& out) {
  return pointwise_out<2>("aten::xlogy", out, {x, y}, kernel_of(BinaryWith::xlogy, {}));
}
Tensor& xlogy_(Tensor& x, const Tensor& y) {
  return pointwise_in_place<2>("aten::xlogy", x, {x, y}, kernel_of(BinaryWith::xlogy, {}));
}

template <UnaryWith op, BinaryWith gradient>
void add_plain(std::vector<Entry>& entries, std::string_view in_place, std::string_view backward,
               std::string_view backward_out, std::string_view section) {
  entries.push_back(certify<plain<op>>(name_of(op), "", section));
  entries.push_back(certify<plain_out<op>>(name_of(op), "out", section));
  entries.push_back(certify<plain_in_place<op>>(in_place, "", section));
  entries.push_back(certify<plain_backward<gradient>>(backward, "", section));
  if (!backward_out.empty()) entries.push_back(certify<plain_backward_out<gradient>>(backward, backward_out, section));
}

template <UnaryWith op>
void add_shrink(std::vector<Entry>& entries, std::string_view name, std::string_view backward,
                std::string_view section) {
  entries.push_back(certify<shrink<op>>(name, "", section));
  entries.push_back(certify<shrink_out<op>>(name, "out", section));
  entries.push_back(certify<shrink_backward<op>>(backward, "", "10: x within +-lambda ? +0 : dy"));
  entries.push_back(certify<shrink_backward_out<op>>(backward, "grad_input", "10: x within +-lambda ? +0 : dy"));
}

}  // namespace

std::vector<Entry> activation_operators() {
  constexpr std::string_view elu_section = "10: x > 0 ? x * scale : expm1(x * inner) * RN(alpha * scale)";
  constexpr std::string_view softplus_section = "10: x * beta > threshold ? x : log1p(exp(x * beta)) / beta";
  constexpr std::string_view log_sigmoid_section = "10: min(x, 0) - log1p(exp(-abs(x))); gradient dy * sigmoid(-x)";
  constexpr std::string_view slope = "10: x > 0 ? x : slope * x";
  constexpr std::string_view glu_section = "10: a * sigmoid(b)";
  constexpr std::string_view xlogy_section = "10: x = 0 and y no NaN ? +0 : x * log(y)";
  std::vector<Entry> entries = {
      certify<elu>("aten::elu", "", elu_section),
      certify<elu_out>("aten::elu", "out", elu_section),
      certify<elu_>("aten::elu_", "", elu_section),
      certify<elu_backward>("aten::elu_backward", "", elu_section),
      certify<elu_backward_out>("aten::elu_backward", "grad_input", elu_section),
      certify<softplus>("aten::softplus", "", softplus_section),
      certify<softplus_out>("aten::softplus", "out", softplus_section),
      certify<softplus_backward>("aten::softplus_backward", "", softplus_section),
      certify<softplus_backward_out>("aten::softplus_backward", "grad_input", softplus_section),
      certify<log_sigmoid>("aten::log_sigmoid_forward", "", log_sigmoid_section),
      certify<log_sigmoid_out>("aten::log_sigmoid_forward", "output", log_sigmoid_section),
      certify<log_sigmoid_backward>("aten::log_sigmoid_backward", "", log_sigmoid_section),
      certify<log_sigmoid_backward_out>("aten::log_sigmoid_backward", "grad_input", log_sigmoid_section),
      certify<prelu>("aten::_prelu_kernel", "", slope),
      certify<prelu_backward>("aten::_prelu_kernel_backward", "", slope),
      certify<rrelu>("aten::rrelu_with_noise", "", "5, 10: slope uniform for every element; x > 0 ? x : slope * x"),
      certify<rrelu_>("aten::rrelu_with_noise_", "", "5, 10: slope uniform for every element; x > 0 ? x : slope * x"),
      certify<glu>("aten::glu", "", glu_section),
      certify<glu_out>("aten::glu", "out", glu_section),
      certify<glu_backward>("aten::glu_backward", "", glu_section),
      certify<glu_backward_out>("aten::glu_backward", "grad_input", glu_section),
      certify<xlogy, kElementwise>("aten::xlogy", "Tensor", xlogy_section),
      certify<xlogy_out, kElementwise>("aten::xlogy", "OutTensor", xlogy_section),
      certify<xlogy_, kElementwise>("aten::xlogy_", "Tensor", xlogy_section),
  };
  add_plain<UnaryWith::mish, BinaryWith::mish_backward>(entries, "aten::mish_", "aten::mish_backward", "",
                                                        "10: x * tanh(log1p(exp(x)))");
  add_plain<UnaryWith::hardswish, BinaryWith::hardswish_backward>(
      entries, "aten::hardswish_", "aten::hardswish_backward", "", "10: (x * clamp(x + 3, 0, 6)) / 6");
  add_plain<UnaryWith::hardsigmoid, BinaryWith::hardsigmoid_backward>(
      entries, "aten::hardsigmoid_", "aten::hardsigmoid_backward", "grad_input", "10: clamp(x + 3, 0, 6) / 6");
  add_shrink<UnaryWith::softshrink>(entries, "aten::softshrink", "aten::softshrink_backward",
                                    "10: x > lambda ? x - lambda : x < -lambda ? x + lambda : +0");
  add_shrink<UnaryWith::hardshrink>(entries, "aten::hardshrink", "aten::hardshrink_backward",
                                    "10: x within +-lambda ? +0 : x");
  return entries;
}

}  // namespace isobit::aten
