#include "grains/exact_slice.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <stdexcept>

#include "aten/device_work.h"
#include "kernels/exact_sum.h"
#include "kernels/threads.h"

namespace isobit::grains {
namespace {

constexpr std::int64_t kMostRows = 1 << 17;
// Elements that a thread sums at a time: their digits stay in its second-level cache.
constexpr std::int64_t kBlock = 1 << 14;

void expect(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

bool is_plain(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat && tensor.is_contiguous(); }

// hi, lo: memory for the digits of at least n elements.
bool sum_block(const float* rows, std::int64_t ranks, std::int64_t stride, std::int64_t n, int limb,
               const at::Tensor& hi, const at::Tensor& lo, float* out) {
  at::Tensor high = hi.narrow(0, 0, n), low = lo.narrow(0, 0, n);
  high.zero_();
  low.zero_();
  auto *const high_sums = high.mutable_data_ptr<std::int64_t>(), *const low_sums = low.mutable_data_ptr<std::int64_t>();
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const float* row = rows + rank * stride;
    const int own = kernels::top_limb(row, n);
    if (own > limb) return false;
    if (own >= limb - 1) kernels::add_digits(row, limb, high_sums, low_sums, n);  // smaller ones have no digit here
  }
  kernels::round_digits(high_sums, low_sums, limb, out, n);
  return true;
}

}  // namespace

void top_limbs(const at::Tensor& x, std::span<const std::int64_t> lengths, std::span<int> limbs) {
  expect(is_plain(x), "limbs are those of a contiguous float32 tensor");
  expect(lengths.size() == limbs.size(), "a limb for each length");
  const aten::DeviceWork work(x.device());
  const float* values = x.const_data_ptr<float>();
  std::int64_t first = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    expect(lengths[i] >= 0 && first + lengths[i] <= x.numel(), "the lengths do not add up to the tensor's size");
    limbs[i] = kernels::top_limb(values + first, lengths[i]);
    first += lengths[i];
  }
  expect(first == x.numel(), "the lengths do not add up to the tensor's size");
}

bool sum_rows(const at::Tensor& rows, std::span<const Segment> segments, const at::Tensor& out) {
  expect(is_plain(rows) && is_plain(out) && rows.dim() == 2 && out.dim() == 1 && rows.size(1) == out.size(0),
         "rows [ranks, n] and out [n] are contiguous float32 tensors");
  expect(rows.size(0) <= kMostRows, "at most 2^17 contributions are summed");
  expect(rows.device() == out.device(), "rows and out are of one device");
  std::int64_t total = 0;
  for (const Segment& segment : segments) {
    expect(segment.length >= 0 && segment.limb >= kernels::kNoLimb && segment.limb <= kernels::kHighestLimb,
           "a segment's length is 0 or more, its limb one of the contract's");
    total += segment.length;
  }
  expect(total == out.size(0), "the segments do not add up to the slice");
  const bool host = out.device().is_cpu();
  const std::int64_t block = host ? kBlock * kernels::thread_count() : std::max<std::int64_t>(out.size(0), 1);
  const auto options = at::TensorOptions(out.device()).dtype(at::kLong);
  const at::Tensor hi = at::empty({block}, options), lo = at::empty({block}, options);
  const aten::DeviceWork work(out.device());
  const float* values = rows.const_data_ptr<float>();
  float* sums = out.mutable_data_ptr<float>();
  std::int64_t begin = 0;
  for (const Segment& segment : segments) {
    for (const std::int64_t end = begin + segment.length; begin < end;) {
      const std::int64_t n = std::min(block, end - begin);
      if (!sum_block(values + begin, rows.size(0), rows.size(1), n, segment.limb, hi, lo, sums + begin)) return false;
      begin += n;
    }
  }
  return true;
}

}  // namespace isobit::grains
