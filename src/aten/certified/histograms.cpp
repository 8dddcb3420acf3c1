// Counts and sums per bin: histc (contract, section 10), bincount. On the host for every device.
#include <ATen/ops/aminmax.h>
#include <ATen/ops/bincount_cpu_dispatch.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/float_environment.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;

constexpr const char* kHistc = "aten::histc";

struct Range {
  double low, high;
};

// That of the values where none is given; one to each side where they are all equal.
Range range_of(const Tensor& x, double low, double high) {
  if (low == high && x.numel() > 0) {
    const auto [least, largest] = at::aminmax(x);
    low = least.item<double>(), high = largest.item<double>();
  }
  if (low == high) --low, ++high;
  TORCH_CHECK(std::isfinite(low) && std::isfinite(high) && std::isfinite(high - low) && low < high, kHistc,
              ": min and max must be finite and in order, got ", low, " and ", high);
  return {low, high};
}

template <class Float>
void count(const Tensor& x, const Range& range, std::vector<std::int64_t>& counts) {
  const auto bins = static_cast<double>(counts.size());
  const double width = range.high - range.low;
  const Float* const values = x.const_data_ptr<Float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!(value >= range.low && value <= range.high)) continue;  // NaN, too
    const auto bin = static_cast<std::size_t>((value - range.low) * bins / width);
    ++counts[bin < counts.size() ? bin : counts.size() - 1];
  }
}

Tensor histc(const Tensor& self, std::int64_t bins, const Scalar& low, const Scalar& high) {
  TORCH_CHECK(bins > 0, kHistc, ": bins must be positive, got ", bins);
  const bool is_double = self.scalar_type() == at::kDouble;
  if (!is_double) require_float(kHistc, self);
  const Range range = range_of(self, low.toDouble(), high.toDouble());
  const Tensor x = contiguous(self);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(bins));
  const kernels::FloatEnvironment environment;
  if (is_double) {
    count<double>(x, range, counts);
  } else {
    count<float>(x, range, counts);
  }
  const Tensor result = new_tensor({bins}, self.scalar_type());
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    if (is_double) {
      result.mutable_data_ptr<double>()[bin] = static_cast<double>(counts[static_cast<std::size_t>(bin)]);
    } else {
      result.mutable_data_ptr<float>()[bin] = static_cast<float>(counts[static_cast<std::size_t>(bin)]);
    }
  }
  return result;
}
Tensor& histc_out(const Tensor& self, std::int64_t bins, const Scalar& low, const Scalar& high, Tensor& out) {
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), kHistc, ": out must have the input's type");
  copy_out(out, histc(self, bins, low, high));
  return out;
}

// The weights of a bin are those of index_add, in their order. Of integers: exact sums, as binary64.
Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, c10::SymInt least_bins) {
  const std::int64_t bins_asked = least_bins.expect_int();
  const Tensor counts = at::cpu::bincount(self, {}, bins_asked);  // and its errors
  if (!weights || !weights->defined()) return counts;
  TORCH_CHECK(weights->sizes() == self.sizes(), "aten::bincount: weights must have the input's shape, got ",
              weights->sizes(), " for ", self.sizes());
  const Tensor index = self.to(at::kLong);
  if (is_integral(*weights))
    return at::zeros(counts.sizes(), at::kLong).index_add(0, index, weights->to(at::kLong)).to(at::kDouble);
  return at::zeros(counts.sizes(), weights->options()).index_add(0, index, *weights);
}

}  // namespace

std::vector<Entry> histogram_operators() {
  constexpr std::string_view bins = "10: the bin in binary64, exact counts rounded once";
  return {certify_by_host<histc>(kHistc, "", bins), certify_by_host<histc_out>(kHistc, "out", bins),
          certify_by_host<bincount>("aten::bincount", "", "4: sums by index; counts and integers exact")};
}

}  // namespace isobit::aten
