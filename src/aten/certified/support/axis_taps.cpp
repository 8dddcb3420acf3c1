#include "aten/certified/support/axis_taps.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "aten/certified/support/indexed_plan.h"
#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"
#include "kernels/resample.h"
#include "kernels/threads.h"

namespace isobit::aten {

using at::Tensor;

std::int64_t AxisTaps::most() const {
  std::int32_t most = 0;
  for (std::size_t o = 1; o < begin.size(); ++o) most = std::max(most, begin[o] - begin[o - 1]);
  return most;
}
void AxisTaps::add(std::int64_t from, double w) {
  const auto rounded = static_cast<float>(w);
  if (rounded == 0.0f) return;
  source.push_back(static_cast<std::int32_t>(from));
  weight.push_back(rounded);
}

namespace {

std::int64_t within(std::int64_t i, std::int64_t in) { return std::clamp<std::int64_t>(i, 0, in - 1); }

// PyTorch's rule, in binary32 as PyTorch has it for every type: which pixel is nearest must not depend on the type.
std::int64_t nearest(std::int64_t o, std::int64_t in, std::int64_t out, bool exact,
                     const std::optional<double>& scale) {
  if (!exact && out == in) return o;
  if (!exact && out == 2 * in) return o / 2;
  const float step =
      scale && *scale > 0 ? static_cast<float>(1.0 / *scale) : static_cast<float>(in) / static_cast<float>(out);
  const float at = exact ? static_cast<float>((static_cast<double>(o) + 0.5) * static_cast<double>(step))
                         : static_cast<float>(o) * step;
  return std::min(static_cast<std::int64_t>(std::floor(at)), in - 1);
}

// The distance between neighbouring outputs, in inputs.
double step_of(std::int64_t in, std::int64_t out, bool align_corners, const std::optional<double>& scale) {
  if (align_corners) return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  return scale && *scale > 0 ? 1.0 / *scale : static_cast<double>(in) / static_cast<double>(out);
}
double position(double step, std::int64_t o, bool align_corners) {
  const auto place = static_cast<double>(o);
  return align_corners ? step * place : step * (place + 0.5) - 0.5;
}

// Keys's cubic convolution with parameter a; x >= 0.
double cubic(double x, double a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

void add_linear(AxisTaps& taps, double at) {
  at = std::max(at, 0.0);
  const std::int64_t first = std::min(static_cast<std::int64_t>(at), taps.in - 1);
  const double second = std::clamp(at - static_cast<double>(first), 0.0, 1.0);
  taps.add(first, first + 1 < taps.in ? 1.0 - second : 1.0);
  if (first + 1 < taps.in) taps.add(first + 1, second);
}
void add_cubic(AxisTaps& taps, double at) {
  const std::int64_t first = std::min(static_cast<std::int64_t>(std::floor(at)), taps.in - 1);
  const double t = std::clamp(at - static_cast<double>(first), 0.0, 1.0);
  const double distance[] = {t + 1.0, t, 1.0 - t, 2.0 - t};
  for (std::int64_t k = 0; k < 4; ++k) taps.add(within(first - 1 + k, taps.in), cubic(distance[k], -0.75));
}
// A filter as wide as the outputs are apart, its weights' sum made 1.
void add_antialiased(AxisTaps& taps, std::int64_t o, double step, bool is_cubic) {
  const double reach = is_cubic ? 2.0 : 1.0, stretch = std::max(step, 1.0),
               center = step * (static_cast<double>(o) + 0.5);
  const std::int64_t first = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach * stretch + 0.5), 0);
  const std::int64_t last = std::min(static_cast<std::int64_t>(center + reach * stretch + 0.5), taps.in);
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const double x = std::fabs((static_cast<double>(i) - center + 0.5) * (1.0 / stretch));
    weights.push_back(is_cubic ? cubic(x, -0.5) : std::max(1.0 - x, 0.0));
    sum += weights.back();
  }
  for (std::int64_t i = first; i < last; ++i)
    taps.add(i, sum != 0 ? weights[static_cast<std::size_t>(i - first)] / sum : 0.0);
}

}  // namespace

AxisTaps interpolation_taps(Interpolation kind, std::int64_t in, std::int64_t out, bool align_corners,
                            std::optional<double> scale) {
  AxisTaps taps;
  taps.in = in;
  const double step = step_of(in, out, align_corners, scale);
  for (std::int64_t o = 0; o < out; ++o) {
    const bool as_is = in == out && (kind == Interpolation::linear || kind == Interpolation::cubic);
    const double at = as_is ? static_cast<double>(o) : position(step, o, align_corners);
    switch (kind) {
      case Interpolation::nearest: taps.add(nearest(o, in, out, false, scale), 1.0); break;
      case Interpolation::nearest_exact: taps.add(nearest(o, in, out, true, scale), 1.0); break;
      case Interpolation::linear: add_linear(taps, at); break;
      case Interpolation::cubic: add_cubic(taps, at); break;
      case Interpolation::linear_antialiased: add_antialiased(taps, o, step, false); break;
      case Interpolation::cubic_antialiased: add_antialiased(taps, o, step, true); break;
    }
    taps.close();
  }
  return taps;
}

AxisTaps padding_taps(bool reflect, std::int64_t in, std::int64_t before, std::int64_t after) {
  AxisTaps taps;
  taps.in = in;
  for (std::int64_t i = -before; i < in + after; ++i) {
    const std::int64_t mirrored = i < 0 ? -i : i >= in ? 2 * (in - 1) - i : i;
    taps.add(within(reflect ? mirrored : i, in), 1.0);
    taps.close();
  }
  return taps;
}

AxisTaps transposed(const AxisTaps& taps) {
  AxisTaps result;
  result.in = taps.out();
  std::vector<std::int32_t> place(static_cast<std::size_t>(taps.in) + 1, 0);
  for (const std::int32_t from : taps.source) ++place[static_cast<std::size_t>(from) + 1];
  for (std::size_t i = 1; i < place.size(); ++i) place[i] += place[i - 1];
  result.begin = place;
  result.source.resize(taps.source.size()), result.weight.resize(taps.weight.size());
  for (std::int64_t o = 0; o < taps.out(); ++o) {
    for (std::int32_t e = taps.begin[o]; e < taps.begin[o + 1]; ++e) {
      const auto to = static_cast<std::size_t>(place[taps.source[e]]++);
      result.source[to] = static_cast<std::int32_t>(o), result.weight[to] = taps.weight[e];
    }
  }
  return result;
}

namespace {

struct Parts {
  std::int64_t outer = 1, inner = 1;
  at::DimVector sizes;
};
Parts parts_of(const AxisTaps& taps, const Tensor& x, std::int64_t dim) {
  Parts parts;
  parts.sizes = at::DimVector(x.sizes());
  for (std::int64_t d = 0; d < dim; ++d) parts.outer *= x.size(d);
  for (std::int64_t d = dim + 1; d < x.dim(); ++d) parts.inner *= x.size(d);
  TORCH_INTERNAL_ASSERT(x.size(dim) == taps.in);
  parts.sizes[static_cast<std::size_t>(dim)] = taps.out();
  return parts;
}

// The k-th entry of every output; where there is none input 0, weight 0, and `has` false.
struct Entries {
  Tensor source, weight, has;
  bool all = true;
};
Entries entries_at(const AxisTaps& taps, std::int64_t k, const Tensor& like, std::int64_t dim) {
  Entries e;
  const Tensor source = host_integers(taps.out()), has = host_integers(taps.out());
  std::vector<float> weight(static_cast<std::size_t>(taps.out()), 0.0f);
  for (std::int64_t o = 0; o < taps.out(); ++o) {
    const std::int32_t at = taps.begin[o] + static_cast<std::int32_t>(k);
    const bool there = at < taps.begin[o + 1];
    e.all &= there;
    source.mutable_data_ptr<std::int64_t>()[o] = there ? taps.source[at] : 0;
    has.mutable_data_ptr<std::int64_t>()[o] = there;
    if (there) weight[static_cast<std::size_t>(o)] = taps.weight[at];
  }
  at::DimVector sizes(static_cast<std::size_t>(like.dim()), 1);
  sizes[static_cast<std::size_t>(dim)] = taps.out();
  const Tensor host = at::from_blob(weight.data(), sizes, at::kFloat);
  e.source = source.to(like.device()), e.weight = host.to(like.device()),
  e.has = has.view(sizes).to(like.device()).ne(0);
  return e;
}

kernels::AxisTable view(const AxisTaps& t) {
  return {t.in, t.out(), t.begin.data(), t.source.data(), t.weight.data(), t.most()};
}

// One row of copies along the last dimension.
class RowCopy {
 public:
  explicit RowCopy(const AxisTaps& taps) : source_(taps.source.data()), in_(taps.in), out_(taps.out()) {
    if (out_ != 2 * in_) return;
    doubled_ = true;
    for (std::int64_t o = 0; o < out_; ++o) doubled_ &= source_[o] == o / 2;
  }
  void operator()(const float* __restrict from, float* __restrict to) const {
    if (doubled_) {  // what most networks ask for
      typedef float Four __attribute__((vector_size(16)));
      std::int64_t i = 0;
      for (; i + 4 <= in_; i += 4) {
        Four x;
        std::memcpy(&x, from + i, sizeof x);
        const Four pairs[2] = {__builtin_shufflevector(x, x, 0, 0, 1, 1), __builtin_shufflevector(x, x, 2, 2, 3, 3)};
        std::memcpy(to + 2 * i, pairs, sizeof pairs);
      }
      for (; i < in_; ++i) to[2 * i] = from[i], to[2 * i + 1] = from[i];
    } else {
      for (std::int64_t o = 0; o < out_; ++o) to[o] = from[source_[o]];
    }
  }

 private:
  const std::int32_t* source_;
  std::int64_t in_, out_;
  bool doubled_ = false;
};

Tensor composed_taps(const AxisTaps& taps, const Tensor& x, std::int64_t dim, const Parts& parts) {
  Tensor sum = new_tensor(parts.sizes).zero_();
  if (taps.in == 0) return sum;
  for (std::int64_t k = 0; k < taps.most(); ++k) {
    const Entries e = entries_at(taps, k, x, dim);
    const Tensor next = at::addcmul(sum, at::index_select(x, dim, e.source), e.weight);
    sum = e.all ? next : at::where(e.has, next, sum);
  }
  return sum;
}

}  // namespace

Tensor apply_taps(const AxisTaps& taps, const Tensor& given, std::int64_t dim) {
  const Parts parts = parts_of(taps, given, dim);
  const Tensor x = contiguous(given);
  if (working_device() != nullptr) return composed_taps(taps, x, dim, parts);
  return write_new(parts.sizes, [&](float* y) {
    kernels::resample_axis(view(taps), parts.outer, parts.inner, x.const_data_ptr<float>(), y);
  });
}

Tensor apply_grid(const AxisTaps& rows, const AxisTaps& columns, const Tensor& given) {
  const std::int64_t last = given.dim() - 1;
  const std::int64_t between = rows.out() * columns.in;
  constexpr std::int64_t kCache = 65536;  // elements between the two sums: 256 kB
  std::int64_t planes = 1;
  for (std::int64_t d = 0; d < last - 1; ++d) planes *= given.size(d);
  if (working_device() != nullptr || between > kCache || planes < std::int64_t{2} * kernels::thread_count()) {
    return apply_taps(columns, apply_taps(rows, given, last - 1), last);
  }
  const Tensor x = contiguous(given);
  at::DimVector sizes(x.sizes());
  TORCH_INTERNAL_ASSERT(x.size(last - 1) == rows.in && x.size(last) == columns.in);
  sizes.end()[-2] = rows.out();
  sizes.back() = columns.out();
  const kernels::AxisTable down = view(rows), across = view(columns);
  return write_new(sizes, [&](float* y) {
    const float* const from = x.const_data_ptr<float>();
    const std::int64_t before = rows.in * columns.in, after = rows.out() * columns.out();
    kernels::parallel_for(0, planes, 16384 / (before + after + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> middle(static_cast<std::size_t>(between));
      for (std::int64_t p = begin; p < end; ++p) {
        const float* const plane = from + p * before;
        float* const to = y + p * after;
        kernels::resample_axis(down, 1, columns.in, plane, middle.data());
        kernels::resample_axis(across, rows.out(), 1, middle.data(), to);
      }
    });
  });
}

Tensor copy_taps(const AxisTaps& taps, const Tensor& given, std::int64_t dim) {
  const Parts parts = parts_of(taps, given, dim);
  const Tensor x = contiguous(given);
  if (working_device() != nullptr) return contiguous(at::index_select(x, dim, entries_at(taps, 0, x, dim).source));
  return write_new(parts.sizes, [&](float* y) {
    const float* const from = x.const_data_ptr<float>();
    const std::int64_t out = taps.out(), inner = parts.inner;
    if (inner == 1) {
      const RowCopy copy(taps);
      kernels::parallel_for(0, parts.outer, 8192 / (out + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) copy(from + i * taps.in, y + i * out);
      });
      return;
    }
    kernels::parallel_for(0, parts.outer * out, 8192 / (inner + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float* const row = from + (i / out * taps.in + taps.source[i % out]) * inner;
        std::memcpy(y + i * inner, row, sizeof(float) * static_cast<std::size_t>(inner));
      }
    });
  });
}

Tensor copy_grid(const AxisTaps& rows, const AxisTaps& columns, const Tensor& given) {
  const Tensor x = contiguous(given);
  at::DimVector sizes(x.sizes());
  TORCH_INTERNAL_ASSERT(x.dim() >= 2 && sizes.end()[-2] == rows.in && sizes.back() == columns.in);
  sizes.end()[-2] = rows.out();
  sizes.back() = columns.out();
  return write_new(sizes, [&](float* y) {
    const RowCopy copy(columns);
    const float* const from = x.const_data_ptr<float>();
    const std::int64_t height = rows.out(), width = columns.out();
    std::int64_t planes = 1;
    for (std::int64_t d = 0; d < x.dim() - 2; ++d) planes *= x.size(d);
    kernels::parallel_for(0, planes * height, 8192 / (width + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i % height;
        float* const to = y + i * width;
        if (i > begin && row > 0 && rows.source[row] == rows.source[row - 1]) {
          std::memcpy(to, to - width, sizeof(float) * static_cast<std::size_t>(width));
        } else {
          copy(from + (i / height * rows.in + rows.source[row]) * columns.in, to);
        }
      }
    });
  });
}

}  // namespace isobit::aten
