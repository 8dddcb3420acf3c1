// Products of the exact tier, written plainly: every row as digits, every output as three sums of integers.
#include "contract/exact_products.h"

#include <algorithm>
#include <vector>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/exact_products.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000;

// The exponent of a row, or of a slab that rows share. Not finite: all outputs of it are NaN.
struct Scale {
  int exponent = 0;
  bool finite = true;
};

// Element i of `count` by `at(i)`.
template <class At>
Scale scale_of(std::int64_t count, At at) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) largest = std::max(largest, contract::bits_of(at(i)) & 0x7fffffff);
  if (largest >= kInfinity) return {0, false};
  return {contract::exact_exponent(largest), true};
}

struct Row {
  Scale scale;
  std::vector<std::int8_t> first, second, third;

  template <class At>
  Row(const Scale& given, std::int64_t terms, At at) : scale(given) {
    for (std::int64_t k = 0; k < terms && scale.finite; ++k) {
      const float x = at(k);
      const contract::ExactDigits d =
          contract::exact_digits(contract::exact_integer(contract::bits_of(x), scale.exponent));
      first.push_back(static_cast<std::int8_t>(d.first));
      second.push_back(static_cast<std::int8_t>(d.second));
      third.push_back(static_cast<std::int8_t>(d.third));
    }
  }
};

float product(const Row& a, const Row& b) {
  if (!a.scale.finite || !b.scale.finite) return contract::float_of(0x7fc00000);
  std::int64_t high = 0, middle = 0, low = 0;
  for (std::size_t k = 0; k < a.first.size(); ++k) {
    high += a.first[k] * b.first[k];
    middle += a.first[k] * b.second[k] + a.second[k] * b.first[k];
    low += a.first[k] * b.third[k] + a.second[k] * b.second[k] + a.third[k] * b.first[k];
  }
  return contract::exact_rounded(high * 65536 + middle * 256 + low, a.scale.exponent + b.scale.exponent - 32);
}

// ---- matrix products

void matmul(const MatmulProblem& p) {
  parallel_for(0, p.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t batch = begin; batch < end; ++batch) {
      std::vector<Row> columns;
      for (std::int64_t j = 0; j < p.n; ++j) {
        const auto at = [&](std::int64_t k) {
          return p.b.data[batch * p.b.batch_stride + k * p.b.row_stride + j * p.b.column_stride];
        };
        columns.emplace_back(scale_of(p.k, at), p.k, at);
      }
      for (std::int64_t i = 0; i < p.m; ++i) {
        const auto at = [&](std::int64_t k) {
          return p.a.data[batch * p.a.batch_stride + i * p.a.row_stride + k * p.a.column_stride];
        };
        const Row row(scale_of(p.k, at), p.k, at);
        for (std::int64_t j = 0; j < p.n; ++j) {
          float value = product(row, columns[static_cast<std::size_t>(j)]);
          if (p.alpha != 1.0f) value = p.alpha * value;
          if (const MatmulOperand& d = p.addend; d.data != nullptr) {
            const float addend = d.data[batch * d.batch_stride + i * d.row_stride + j * d.column_stride];
            value = (p.beta == 1.0f ? addend : p.beta * addend) + value;
          }
          p.c[batch * p.c_batch_stride + i * p.c_row_stride + j * p.c_column_stride] = value;
        }
      }
    }
  });
}

// ---- convolutions: one image and group at a time, or one group

struct Place {
  std::int64_t first, h, w;
};
Place place_of(std::int64_t k, std::int64_t height, std::int64_t width) {
  return {k / (height * width), k / width % height, k % width};
}

float pixel(const float* plane, std::int64_t height, std::int64_t width, std::int64_t h, std::int64_t w) {
  return h < 0 || h >= height || w < 0 || w >= width ? 0.0f : plane[h * width + w];
}

// A group's channels, [0, ci) of the input and [0, co) of the output.
struct Group {
  std::int64_t ci, co, taps;

  explicit Group(const Conv2dShape& s) : ci(s.ci / s.groups), co(s.co / s.groups), taps(s.kh * s.kw) {}
};

void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  const Group g(s);
  const std::int64_t plane = s.out_h() * s.out_w(), terms = g.ci * g.taps;
  parallel_for(0, s.n * s.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t n = index / s.groups, group = index % s.groups;
      const float* image = x + (n * s.ci + group * g.ci) * s.h * s.w;
      const float* kernel = weight + group * g.co * terms;
      std::vector<Row> rows;
      for (std::int64_t co = 0; co < g.co; ++co) {
        const auto at = [&](std::int64_t k) { return kernel[co * terms + k]; };
        rows.emplace_back(scale_of(terms, at), terms, at);
      }
      const Scale slab = scale_of(g.ci * s.h * s.w, [&](std::int64_t i) { return image[i]; });
      for (std::int64_t p = 0; p < plane; ++p) {
        const std::int64_t top = p / s.out_w() * s.stride_h - s.pad_h, left = p % s.out_w() * s.stride_w - s.pad_w;
        const Row window(slab, terms, [&](std::int64_t k) {
          const Place t = place_of(k, s.kh, s.kw);
          return pixel(image + t.first * s.h * s.w, s.h, s.w, top + t.h * s.dilation_h, left + t.w * s.dilation_w);
        });
        for (std::int64_t co = 0; co < g.co; ++co) {
          const float value = product(rows[static_cast<std::size_t>(co)], window);
          const std::int64_t channel = group * g.co + co;
          y[(n * s.co + channel) * plane + p] = bias == nullptr ? value : value + bias[channel];
        }
      }
    }
  });
}

// All taps are terms: those of another phase, or that fall outside of the output, have the factor 0.
void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  const Group g(s);
  const std::int64_t out_h = s.out_h(), out_w = s.out_w(), terms = g.co * g.taps;
  parallel_for(0, s.n * s.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t n = index / s.groups, group = index % s.groups;
      const float* gradient = dy + (n * s.co + group * g.co) * out_h * out_w;
      const float* kernel = weight + group * g.co * g.ci * g.taps;
      std::vector<Row> rows;
      for (std::int64_t ci = 0; ci < g.ci; ++ci) {
        const auto at = [&](std::int64_t k) { return kernel[(k / g.taps * g.ci + ci) * g.taps + k % g.taps]; };
        rows.emplace_back(scale_of(terms, at), terms, at);
      }
      const Scale slab = scale_of(g.co * out_h * out_w, [&](std::int64_t i) { return gradient[i]; });
      for (std::int64_t p = 0; p < s.h * s.w; ++p) {
        const Row window(slab, terms, [&](std::int64_t k) {
          const Place t = place_of(k, s.kh, s.kw);
          const std::int64_t h = p / s.w + s.pad_h - t.h * s.dilation_h, w = p % s.w + s.pad_w - t.w * s.dilation_w;
          if (h % s.stride_h != 0 || w % s.stride_w != 0) return 0.0f;
          return pixel(gradient + t.first * out_h * out_w, out_h, out_w, h / s.stride_h, w / s.stride_w);
        });
        for (std::int64_t ci = 0; ci < g.ci; ++ci)
          dx[(n * s.ci + group * g.ci + ci) * s.h * s.w + p] = product(rows[static_cast<std::size_t>(ci)], window);
      }
    }
  });
}

void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  const Group g(s);
  const std::int64_t out_h = s.out_h(), out_w = s.out_w(), plane = out_h * out_w, terms = s.n * plane;
  parallel_for(0, s.groups * g.ci, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t group = index / g.ci, ci = index % g.ci;
      const auto image = [&](std::int64_t n) { return x + (n * s.ci + index) * s.h * s.w; };
      const Scale slab =
          scale_of(s.n * s.h * s.w, [&](std::int64_t i) { return image(i / (s.h * s.w))[i % (s.h * s.w)]; });
      std::vector<Row> windows;
      for (std::int64_t tap = 0; tap < g.taps; ++tap) {
        windows.emplace_back(slab, terms, [&](std::int64_t k) {
          const Place at = place_of(k, out_h, out_w);
          return pixel(image(at.first), s.h, s.w, at.h * s.stride_h - s.pad_h + tap / s.kw * s.dilation_h,
                       at.w * s.stride_w - s.pad_w + tap % s.kw * s.dilation_w);
        });
      }
      for (std::int64_t co = 0; co < g.co; ++co) {
        const std::int64_t channel = group * g.co + co;
        const auto at = [&](std::int64_t k) { return dy[(k / plane * s.co + channel) * plane + k % plane]; };
        const Row row(scale_of(terms, at), terms, at);
        for (std::int64_t tap = 0; tap < g.taps; ++tap)
          dweight[(channel * g.ci + ci) * g.taps + tap] = product(row, windows[static_cast<std::size_t>(tap)]);
      }
    }
  });
}

}  // namespace

void fill_exact_products(KernelTable& t) {
  t.exact3_matmul = matmul;
  t.exact3_conv2d_forward = conv2d_forward;
  t.exact3_conv2d_input_gradient = conv2d_input_gradient;
  t.exact3_conv2d_weight_gradient = conv2d_weight_gradient;
}

}  // namespace isobit::kernels::reference
