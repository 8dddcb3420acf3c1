// Convolutions of the exact tier (contract, section 17): every implementation against the oracle of exact_oracle.h.
#include "kernels/conv2d.h"

#include <gtest/gtest.h>

#include "kernels/exact_oracle.h"
#include "kernels/exact_products.h"
#include "kernels/product_plans.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

float at(const Floats& planes, std::int64_t plane, std::int64_t h, std::int64_t w, std::int64_t i, std::int64_t j) {
  return i < 0 || i >= h || j < 0 || j >= w ? 0.0f : planes[(plane * h + i) * w + j];
}

Floats slice(const Floats& x, std::int64_t first, std::int64_t count) {
  return {x.begin() + first, x.begin() + first + count};
}

struct Conv {
  Conv2dShape s;
  std::int64_t ci, co, oh, ow;
  Floats x, weight, dy, bias;

  Conv(const Conv2dShape& shape, Values kind, unsigned seed)
      : s(shape),
        ci(s.ci / s.groups),
        co(s.co / s.groups),
        oh(s.out_h()),
        ow(s.out_w()),
        x(values(s.n * s.ci * s.h * s.w, kind, seed)),
        weight(values(s.co * ci * s.kh * s.kw, kind, seed + 1)),
        dy(values(s.n * s.co * oh * ow, kind, seed + 2)),
        bias(values(s.co, Values::normal, seed + 3)) {}

  [[nodiscard]] Floats forward() const {
    Floats y;
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t c = 0; c < s.co; ++c) {
        const std::int64_t first = n * s.ci + c / co * ci;
        const Floats slab = slice(x, first * s.h * s.w, ci * s.h * s.w),
                     kernel = slice(weight, c * ci * s.kh * s.kw, ci * s.kh * s.kw);
        const OracleRow row = oracle_row(kernel);
        for (std::int64_t p = 0; p < oh * ow; ++p) {
          Floats window;
          for (std::int64_t q = 0; q < ci; ++q) {
            for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
              window.push_back(at(x, first + q, s.h, s.w, p / ow * s.stride_h - s.pad_h + t / s.kw * s.dilation_h,
                                  p % ow * s.stride_w - s.pad_w + t % s.kw * s.dilation_w));
            }
          }
          y.push_back(oracle(row, oracle_row(window, slab)) + bias[c]);
        }
      }
    }
    return y;
  }

  // Of the taps that meet an element alone: those that do not add nothing.
  [[nodiscard]] Floats input_gradient() const {
    Floats dx;
    for (std::int64_t n = 0; n < s.n; ++n) {
      for (std::int64_t c = 0; c < s.ci; ++c) {
        const std::int64_t group = c / ci, first = n * s.co + group * co;
        const Floats slab = slice(dy, first * oh * ow, co * oh * ow);
        Floats channel;
        for (std::int64_t q = 0; q < co; ++q) {
          const Floats taps = slice(weight, ((group * co + q) * ci + c % ci) * s.kh * s.kw, s.kh * s.kw);
          channel.insert(channel.end(), taps.begin(), taps.end());
        }
        for (std::int64_t p = 0; p < s.h * s.w; ++p) {
          Floats gradients, taps;
          for (std::int64_t q = 0; q < co; ++q) {
            for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
              const std::int64_t i = p / s.w + s.pad_h - t / s.kw * s.dilation_h,
                                 j = p % s.w + s.pad_w - t % s.kw * s.dilation_w;
              if (i % s.stride_h != 0 || j % s.stride_w != 0) continue;
              gradients.push_back(at(dy, first + q, oh, ow, i / s.stride_h, j / s.stride_w));
              taps.push_back(channel[q * s.kh * s.kw + t]);
            }
          }
          dx.push_back(oracle(oracle_row(taps, channel), oracle_row(gradients, slab)));
        }
      }
    }
    return dx;
  }

  [[nodiscard]] Floats weight_gradient() const {
    Floats dw;
    for (std::int64_t c = 0; c < s.co; ++c) {
      Floats gradients;
      for (std::int64_t n = 0; n < s.n; ++n) {
        const Floats plane = slice(dy, (n * s.co + c) * oh * ow, oh * ow);
        gradients.insert(gradients.end(), plane.begin(), plane.end());
      }
      const OracleRow row = oracle_row(gradients);
      for (std::int64_t q = 0; q < ci; ++q) {
        Floats slab;
        for (std::int64_t n = 0; n < s.n; ++n) {
          const Floats plane = slice(x, (n * s.ci + c / co * ci + q) * s.h * s.w, s.h * s.w);
          slab.insert(slab.end(), plane.begin(), plane.end());
        }
        for (std::int64_t t = 0; t < s.kh * s.kw; ++t) {
          Floats window;
          for (std::int64_t k = 0; k < s.n * oh * ow; ++k) {
            const std::int64_t n = k / (oh * ow), p = k % (oh * ow);
            window.push_back(at(x, n * s.ci + c / co * ci + q, s.h, s.w,
                                p / ow * s.stride_h - s.pad_h + t / s.kw * s.dilation_h,
                                p % ow * s.stride_w - s.pad_w + t % s.kw * s.dilation_w));
          }
          dw.push_back(oracle(row, oracle_row(window, slab)));
        }
      }
    }
    return dw;
  }
};

// A device's block, and its ranges of k, from shape to shape; -1: as planned.
class ForcedBlock {
 public:
  explicit ForcedBlock(unsigned seed) {
    const int tile = static_cast<int>(seed % 4) - 1;
    force_product_plan({tile, tile < 0 ? 0 : std::int64_t{1} << seed % 3});
  }
  ~ForcedBlock() { force_product_plan({}); }
  ForcedBlock(const ForcedBlock&) = delete;
  ForcedBlock& operator=(const ForcedBlock&) = delete;
};

TEST(ExactConvolutions, EveryImplementationGivesTheOraclesBits) {
  const Conv2dShape shapes[] = {
      {.n = 2, .ci = 1, .h = 9, .w = 11, .co = 3, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 2},
      {.n = 3, .ci = 4, .h = 8, .w = 8, .co = 6, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
      {.n = 2,
       .ci = 3,
       .h = 9,
       .w = 10,
       .co = 5,
       .kh = 3,
       .kw = 3,
       .stride_h = 2,
       .stride_w = 2,
       .pad_h = 1,
       .pad_w = 1},
      {.n = 2, .ci = 5, .h = 7, .w = 6, .co = 4, .kh = 1, .kw = 1, .stride_h = 2, .stride_w = 3},
      {.n = 1,
       .ci = 2,
       .h = 12,
       .w = 13,
       .co = 2,
       .kh = 3,
       .kw = 2,
       .pad_h = 3,
       .pad_w = 0,
       .dilation_h = 2,
       .dilation_w = 3},
      {.n = 2,
       .ci = 6,
       .h = 7,
       .w = 7,
       .co = 9,
       .kh = 3,
       .kw = 3,
       .stride_h = 1,
       .stride_w = 2,
       .pad_h = 1,
       .groups = 3},
      {.n = 2, .ci = 5, .h = 6, .w = 8, .co = 5, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1, .groups = 5},
      {.n = 2, .ci = 3, .h = 1, .w = 40, .co = 4, .kh = 1, .kw = 7, .stride_w = 4, .pad_w = 3},
      {.n = 0, .ci = 2, .h = 5, .w = 5, .co = 3, .kh = 3, .kw = 3},
      // Devices take these by chunks of 16 channels, or of 16 images: half full, whole, and more than one.
      {.n = 8, .ci = 8, .h = 5, .w = 4, .co = 16, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
      {.n = 17,
       .ci = 9,
       .h = 5,
       .w = 7,
       .co = 11,
       .kh = 3,
       .kw = 2,
       .stride_h = 2,
       .stride_w = 3,
       .pad_h = 2,
       .pad_w = 1,
       .dilation_h = 2},
      {.n = 16, .ci = 17, .h = 3, .w = 3, .co = 20, .kh = 1, .kw = 1},
      {.n = 9, .ci = 32, .h = 4, .w = 4, .co = 16, .kh = 2, .kw = 2, .stride_w = 2, .groups = 2},
      // Few channels, unfolded along rows: one chunk, and two.
      {.n = 2, .ci = 3, .h = 6, .w = 7, .co = 8, .kh = 4, .kw = 3, .stride_w = 2, .pad_h = 2, .pad_w = 2},
      {.n = 2, .ci = 4, .h = 4, .w = 12, .co = 3, .kh = 2, .kw = 5, .pad_w = 3, .dilation_w = 2},
      {.n = 1, .ci = 1, .h = 1, .w = 1, .co = 1, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1},
  };
  unsigned seed = 100;
  for (const Conv2dShape& s : shapes) {
    const Values kind = static_cast<Values>(++seed % 5);
    const Conv conv(s, kind, seed * 10);
    const Floats y = conv.forward(), dx = conv.input_gradient(), dw = conv.weight_gradient();
    for (const Implementation& isa : implementations()) {
      const ThreadCountScope threads(1 + static_cast<int>(seed % 3));
      const ForcedBlock block(isa.on_device() ? seed : 0);
      Floats a(y.size()), b(dx.size()), c(dw.size());
      on(isa, [&](const KernelTable& table) {
        table.exact3_conv2d_forward(s, conv.x.data(), conv.weight.data(), conv.bias.data(), a.data());
        table.exact3_conv2d_input_gradient(s, conv.dy.data(), conv.weight.data(), b.data());
        table.exact3_conv2d_weight_gradient(s, conv.x.data(), conv.dy.data(), c.data());
      });
      EXPECT_EQ(difference(y, a), -1) << "forward " << seed << " " << name(isa);
      EXPECT_EQ(difference(dx, b), -1) << "input gradient " << seed << " " << name(isa);
      EXPECT_EQ(difference(dw, c), -1) << "weight gradient " << seed << " " << name(isa);
    }
  }
}

}  // namespace
}  // namespace isobit::kernels
