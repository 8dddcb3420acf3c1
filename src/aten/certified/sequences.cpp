// Evenly spaced numbers (contract, section 10): computed in binary64, rounded once.
#include <ATen/Dispatch.h>
#include <ATen/ops/arange_cpu_dispatch.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <string>
#include <type_traits>

#include "aten/arithmetic_types.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "contract/functions_power.h"
#include "contract/host_power.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;

// value(i), binary64, for element i of out, rounded once to float32, or towards zero to an integer as stock does; on
// the host for every device.
template <class Value>
Tensor& fill_sequence(const char* op, Tensor& out, std::int64_t n, Value value) {
  const bool whole = is_integral(out);
  if (!whole) require_arithmetic(op, {&out});
  const at::ScalarType type = whole ? at::kLong : out.scalar_type();
  const Tensor numbers = at::empty({n}, at::TensorOptions(type).device(at::kCPU));
  const kernels::FloatEnvironment environment;
  const auto fill = [&](auto* y) {
    kernels::parallel_for(0, n, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<std::remove_pointer_t<decltype(y)>>(value(i));
    });
  };
  whole ? fill(numbers.mutable_data_ptr<std::int64_t>()) : with_data(numbers, fill);
  if (out.numel() == n) {  // of any shape
    out.copy_(numbers.view(out.sizes()));
  } else {
    copy_out(out, numbers);
  }
  return out;
}

// From both ends towards the middle, so that the last number is the end.
struct Line {
  Line(double first, double last, std::int64_t n)
      : from(first), to(last), step(n > 1 ? (last - first) / static_cast<double>(n - 1) : 0.0), count(n) {}
  [[nodiscard]] double at(std::int64_t i) const {
    return i < count / 2 || count == 1 ? from + step * static_cast<double>(i)
                                       : to - step * static_cast<double>(count - 1 - i);
  }
  double from, to, step;
  std::int64_t count;
};

Tensor& linspace_out(const Scalar& first, const Scalar& last, std::int64_t steps, Tensor& out) {
  TORCH_CHECK(steps >= 0, "aten::linspace: the number of steps must not be negative");
  double from = first.toDouble(), to = last.toDouble();
  if (is_integral(out)) {  // the ends as numbers of the type, as in stock: an error where it does not hold them
    AT_DISPATCH_INTEGRAL_TYPES(out.scalar_type(), "linspace", [&] {
      from = static_cast<double>(first.to<scalar_t>());
      to = static_cast<double>(last.to<scalar_t>());
    });
  }
  const Line line(from, to, steps);
  return fill_sequence("aten::linspace", out, steps, [&](std::int64_t i) { return line.at(i); });
}
Tensor& logspace_out(const Scalar& first, const Scalar& last, std::int64_t steps, double base, Tensor& out) {
  TORCH_CHECK(steps >= 0, "aten::logspace: the number of steps must not be negative");
  const Line line(first.toDouble(), last.toDouble(), steps);
  if (require_computed("aten::logspace", out.scalar_type()) == at::kDouble) {
    return fill_sequence("aten::logspace", out, steps,
                         [&](std::int64_t i) { return contract::pow_rounded(base, line.at(i)); });
  }
  const auto small_base = static_cast<float>(base);
  const bool plain = small_base > 0.0f && std::isfinite(small_base);
  const double digits = plain ? contract::log2_of(small_base) : 0.0;
  return fill_sequence("aten::logspace", out, steps, [&](std::int64_t i) {
    return plain ? contract::exp2_of(line.at(i) * digits) : contract::power(small_base, static_cast<float>(line.at(i)));
  });
}
Scalar as_integer(const Scalar& number) {
  if (number.isIntegral(/*includeBool=*/true)) return number;
  const double value = number.toDouble();
  if (!(std::fabs(value) < 0x1p53) || value != std::trunc(value)) {
    refuse("aten::arange", "takes whole numbers for an integer type, got " + std::to_string(value),
           "make a float tensor and convert it");
  }
  return static_cast<std::int64_t>(value);
}
Tensor& arange_out(const Scalar& first, const Scalar& last, const Scalar& step, Tensor& out) {
  if (is_integral(out)) {  // stock's integers; numbers with a fraction are cut in another way for every type
    return at::cpu::arange_out(out, as_integer(first), as_integer(last), as_integer(step));
  }
  require_computed("aten::arange", out.scalar_type());
  const double from = first.toDouble(), to = last.toDouble(), by = step.toDouble();
  TORCH_CHECK(by != 0.0 && std::isfinite(from) && std::isfinite(to),
              "aten::arange: the step must not be 0 and the bounds must be finite, got ", from, " to ", to, " by ", by);
  TORCH_CHECK((by > 0.0) == (to >= from) || to == from, "aten::arange: the step's sign does not lead from ", from,
              " to ", to);
  const auto count = static_cast<std::int64_t>(std::ceil((to - from) / by));
  return fill_sequence("aten::arange", out, count, [&](std::int64_t i) { return from + by * static_cast<double>(i); });
}

}  // namespace

std::vector<Entry> sequence_operators() {
  return {
      certify<linspace_out>("aten::linspace", "out", "10: from both ends in binary64, rounded once"),
      certify<logspace_out>("aten::logspace", "out", "10: powers of linspace's numbers in binary64, rounded once"),
      certify<arange_out, kIntegersByStockAndOut>("aten::arange", "start_out",
                                                  "10: first + i * step in binary64, rounded once"),
  };
}

}  // namespace isobit::aten
