// Convolutions by channel (one input channel a group) and their input gradients: a register holds channels.
//
//   out[h, w] = chain over k of weights[k] * source[o(k), i * row_step + row(k), j * column_step + column(k)]
//
// The elements (i, j) of a phase lie at h = first_row + i * out_row_step, w likewise: forward has one phase, and an
// input gradient as many as the strides' product (the taps that meet an element). Rows of source and of out are turned
// so that channels lie side by side, a strip of them at a time. What lies outside is +0 and multiplied, as the contract
// says; a chain has one leaf of terms at most.
#pragma once

#include <algorithm>

#include "kernels/cpu/vector/channel_lanes.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// kCount neighbouring elements; one more sum of +0 where there is no bias changes no bit.
struct ElementChains {
  const float* source;
  const std::int32_t* offsets;  // [terms]
  const float* weights;         // [terms][kLanes]
  std::int64_t terms, step;     // from element to element of source
  float* out;
  std::int64_t out_step;
  FloatLanes bias;
};
constexpr int kElements = 12;

template <int kCount>
__attribute__((noinline)) void element_chains(const ElementChains& c) {
  FloatLanes t[kCount];
  const float *source = c.source, *weight = c.weights;
  const std::int64_t step = c.step;
  ISOBIT_UNROLL(GCC unroll 16)
  for (int j = 0; j < kCount; ++j) t[j] = FloatLanes(0.0f);
  for (std::int64_t k = 0; k < c.terms; ++k, weight += kLanes) {
    const FloatLanes factor = load(weight);
    const float* at = source + c.offsets[k];
    ISOBIT_UNROLL(GCC unroll 16)
    for (int j = 0; j < kCount; ++j, at += step) t[j] = fma(factor, load(at), t[j]);
  }
  const FloatLanes zero(0.0f);
  ISOBIT_UNROLL(GCC unroll 16)
  for (int j = 0; j < kCount; ++j) store(c.out + j * c.out_step, (t[j] + zero) + c.bias);
}
constexpr auto kElementChains = by_size<kElements>([](auto count) { return &element_chains<count>; });

struct LanesTerm {
  std::int32_t plane, row, column, weight;  // weight: which of a channel's
};
struct LanesPhase {
  std::int64_t height = 0, width = 0;  // elements
  std::int64_t first_row = 0, first_column = 0;
  std::int64_t terms = 0;
  LanesTerm* term = nullptr;
};

// One of both directions. Channel c of a block reads planes c * planes + (0 ...) and writes c * outputs + (0 ...), for
// each output its own weights: output q's weight t of channel c at weights[(c * outputs + q) * channel_weights + t].
struct LanesProblem {
  std::int64_t images = 0, channels = 0, planes = 1, outputs = 1, channel_weights = 0;
  const float *source = nullptr, *weights = nullptr, *bias = nullptr;
  std::int64_t height = 0, width = 0;  // of a plane of source
  float* out = nullptr;
  std::int64_t out_height = 0, out_width = 0;
  std::int64_t row_step = 1, column_step = 1, out_row_step = 1, out_column_step = 1;
  LanesPhase* phases = nullptr;
  std::int64_t phase_count = 0, most_terms = 0;

  // What all phases read together.
  std::int64_t low_row = 0, low_column = 0, high_row = 0, high_column = 0, most_height = 0, most_width = 0;
  void measure() {
    bool any = false;
    for (std::int64_t f = 0; f < phase_count; ++f) {
      most_height = std::max(most_height, phases[f].height), most_width = std::max(most_width, phases[f].width);
      most_terms = std::max(most_terms, phases[f].terms);
      for (std::int64_t k = 0; k < phases[f].terms; ++k, any = true) {
        const std::int64_t row = phases[f].term[k].row, column = phases[f].term[k].column;
        low_row = any ? std::min(low_row, row) : row, high_row = any ? std::max(high_row, row) : row;
        low_column = any ? std::min(low_column, column) : column;
        high_column = any ? std::max(high_column, column) : column;
      }
    }
  }
  [[nodiscard]] std::int64_t columns() const { return (most_width - 1) * column_step + high_column - low_column + 1; }
  [[nodiscard]] std::int64_t rows(std::int64_t elements) const {
    return (elements - 1) * row_step + high_row - low_row + 1;
  }
};

class ChannelLanesProduct {
 public:
  // weights: of all blocks, turned (turn_weights).
  ChannelLanesProduct(const LanesProblem& p, const float* weights)
      : p_(p),
        weights_(weights),
        columns_(p.columns()),
        strip_(strip_of(p)),
        plane_(p.rows(strip_) * columns_ * kLanes) {
    source_ = workspace_.floats(p.planes * plane_);
    zero_floats(source_, p.planes * plane_);  // the columns outside stay
    out_ = workspace_.floats(out_rows(p, strip_) * p.out_width * kLanes);
    offsets_ = workspace_.ints(p.phase_count * p.most_terms);
    for (std::int64_t f = 0; f < p.phase_count; ++f) {
      for (std::int64_t k = 0; k < p.phases[f].terms; ++k) {
        const LanesTerm& t = p.phases[f].term[k];
        offsets_[f * p.most_terms + k] = static_cast<std::int32_t>(
            t.plane * plane_ + ((t.row - p.low_row) * columns_ + t.column - p.low_column) * kLanes);
      }
    }
  }

  void run(std::int64_t block, std::int64_t image) {
    const std::int64_t first = block * kLanes, channels = std::min<std::int64_t>(kLanes, p_.channels - first);
    for (std::int64_t i = 0; i < p_.most_height; i += strip_) {
      const std::int64_t elements = std::min(strip_, p_.most_height - i);
      for (std::int64_t o = 0; o < p_.planes; ++o) turn_source(first, channels, image, o, i, elements);
      for (std::int64_t q = 0; q < p_.outputs; ++q) {
        const FloatLanes bias = bias_of(first, channels, q);
        for (std::int64_t f = 0; f < p_.phase_count; ++f) multiply(block, q, f, i, elements, bias);
        turn_out(first, channels, image, q, i, elements);
      }
    }
  }

  // Floats of scratch for source and out.
  static double scratch(const LanesProblem& p) {
    const std::int64_t strip = strip_of(p);
    return (static_cast<double>(p.planes * p.rows(strip)) * static_cast<double>(p.columns()) +
            static_cast<double>(out_rows(p, strip)) * static_cast<double>(p.out_width)) *
           kLanes;
  }

 private:
  // Of out, for `elements` rows of elements.
  static std::int64_t out_rows(const LanesProblem& p, std::int64_t elements) {
    return std::min(elements * p.out_row_step, p.out_height);
  }
  // Rows of elements at a time: what they read and write stays near.
  static std::int64_t strip_of(const LanesProblem& p) {
    constexpr std::int64_t kNear = 1 << 15;  // floats
    const std::int64_t row = (p.planes * p.columns() * p.row_step + p.out_row_step * p.out_width) * kLanes;
    const std::int64_t least = 2 * (p.high_row - p.low_row + 1);
    return std::clamp<std::int64_t>(kNear / std::max<std::int64_t>(row, 1), std::min(least, p.most_height),
                                    p.most_height);
  }

  void turn_source(std::int64_t first, std::int64_t channels, std::int64_t image, std::int64_t o, std::int64_t i,
                   std::int64_t elements) {
    const std::int64_t begin = std::max<std::int64_t>(0, p_.low_column),
                       end = std::min(p_.width, p_.low_column + columns_);
    float* to = source_ + o * plane_;
    const std::int64_t top = i * p_.row_step + p_.low_row, rows = p_.rows(elements);
    for (std::int64_t r = 0; r < rows; ++r, to += columns_ * kLanes) {
      if (top + r < 0 || top + r >= p_.height) {
        zero_floats(to, columns_ * kLanes);
      } else if (begin < end) {
        const float* from[kLanes];
        for (std::int64_t l = 0; l < kLanes; ++l) {
          const std::int64_t channel = (first + std::min(l, channels - 1)) * p_.planes + o;
          from[l] = p_.source + ((image * p_.channels * p_.planes + channel) * p_.height + top + r) * p_.width + begin;
        }
        turn_lanes(from, end - begin, to + (begin - p_.low_column) * kLanes);
      }
    }
  }
  [[nodiscard]] FloatLanes bias_of(std::int64_t first, std::int64_t channels, std::int64_t q) const {
    float bias[kLanes] = {};
    for (std::int64_t l = 0; p_.bias != nullptr && l < channels; ++l) bias[l] = p_.bias[(first + l) * p_.outputs + q];
    return load(bias);
  }

  // Rows [i, i + elements) of the phase's elements.
  void multiply(std::int64_t block, std::int64_t q, std::int64_t f, std::int64_t i, std::int64_t elements,
                FloatLanes bias) {
    const LanesPhase& phase = p_.phases[f];
    const float* const weights = weights_ + ((block * p_.outputs + q) * p_.phase_count + f) * p_.most_terms * kLanes;
    const std::int64_t pieces = (phase.width + kElements - 1) / kElements;
    for (std::int64_t r = 0; r < std::min(elements, phase.height - i); ++r) {
      float* const out = out_ + ((r * p_.out_row_step + phase.first_row) * p_.out_width + phase.first_column) * kLanes;
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        const std::int64_t j = phase.width * piece / pieces, end = phase.width * (piece + 1) / pieces;
        kElementChains.of[end - j]({.source = source_ + (r * p_.row_step * columns_ + j * p_.column_step) * kLanes,
                                    .offsets = offsets_ + f * p_.most_terms,
                                    .weights = weights,
                                    .terms = phase.terms,
                                    .step = p_.column_step * kLanes,
                                    .out = out + j * p_.out_column_step * kLanes,
                                    .out_step = p_.out_column_step * kLanes,
                                    .bias = bias});
      }
    }
  }

  void turn_out(std::int64_t first, std::int64_t channels, std::int64_t image, std::int64_t q, std::int64_t i,
                std::int64_t elements) const {
    const std::int64_t row = i * p_.out_row_step;
    const std::int64_t rows = std::min(elements * p_.out_row_step, p_.out_height - row), n = rows * p_.out_width;
    const std::int64_t plane = p_.out_height * p_.out_width, stride = p_.outputs * plane;
    float* const to = p_.out + ((image * p_.channels + first) * p_.outputs + q) * plane + row * p_.out_width;
    std::int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
      for (std::int64_t half = 0; half < kLanes; half += 8) {
        const float* from[8];
        for (std::int64_t j = 0; j < 8; ++j) from[j] = out_ + (k + j) * kLanes + half;
        __m256 block[8];
        read_transposed(from, 0, block);
        for (std::int64_t l = 0; l < 8 && half + l < channels; ++l)
          _mm256_storeu_ps(to + (half + l) * stride + k, block[l]);
      }
    }
    for (; k < n; ++k) {
      for (std::int64_t l = 0; l < channels; ++l) to[l * stride + k] = out_[k * kLanes + l];
    }
  }

  const LanesProblem& p_;
  const float* const weights_;
  const std::int64_t columns_, strip_, plane_;
  Workspace workspace_;
  float *source_, *out_;
  std::int32_t* offsets_;
};

// [block][output][phase][term][kLanes]
[[maybe_unused]] const float* turn_weights(const LanesProblem& p, Workspace& workspace) {
  const std::int64_t blocks = (p.channels + kLanes - 1) / kLanes;
  float* const turned = workspace.floats(blocks * p.outputs * p.phase_count * p.most_terms * kLanes);
  float* to = turned;
  for (std::int64_t i = 0; i < blocks * p.outputs; ++i) {
    for (std::int64_t f = 0; f < p.phase_count; ++f, to += p.most_terms * kLanes) {
      for (std::int64_t k = 0; k < p.phases[f].terms; ++k) {
        for (std::int64_t l = 0; l < kLanes; ++l) {
          const std::int64_t channel = std::min(i / p.outputs * kLanes + l, p.channels - 1);
          to[k * kLanes + l] =
              p.weights[(channel * p.outputs + i % p.outputs) * p.channel_weights + p.phases[f].term[k].weight];
        }
      }
    }
  }
  return turned;
}

// False where it would not pay, or its scratch be too large.
[[maybe_unused]] bool multiply_by_channel_lanes(const Conv2dShape& s, LanesProblem& p) {
  p.measure();
  const std::int64_t blocks = (p.channels + kLanes - 1) / kLanes, total = blocks * p.images;
  if (p.most_terms == 0 || p.most_terms > contract::kLeaf || 4 * p.channels < 3 * blocks * kLanes) return false;
  if (ChannelLanesProduct::scratch(p) > static_cast<double>(kMostScratch)) return false;
  Workspace workspace;
  const float* const weights = turn_weights(p, workspace);
  const std::int64_t threads = useful_threads(s);
  parallel_for(0, total, at_least(1, total / (8 * threads)), [&](std::int64_t begin, std::int64_t end) {
    ChannelLanesProduct product(p, weights);
    for (std::int64_t i = begin; i < end; ++i) product.run(i % blocks, i / blocks);
  });
  return true;
}

[[maybe_unused]] bool forward_by_channel_lanes(const Conv2dShape& s, const float* x, const float* weight,
                                               const float* bias, float* y) {
  const std::int64_t m = s.co / s.groups, taps = s.kh * s.kw;
  if (s.planes != nullptr || !channel_lanes_pay(s)) return false;
  Workspace workspace;
  auto* const terms = static_cast<LanesTerm*>(workspace.bytes(sizeof(LanesTerm) * static_cast<std::size_t>(taps)));
  for (std::int64_t k = 0; k < taps; ++k) {
    terms[k] = {0, static_cast<std::int32_t>(k / s.kw * s.dilation_h - s.pad_h),
                static_cast<std::int32_t>(k % s.kw * s.dilation_w - s.pad_w), static_cast<std::int32_t>(k)};
  }
  LanesPhase phase{.height = s.out_h(), .width = s.out_w(), .terms = taps, .term = terms};
  LanesProblem p{.images = s.n, .channels = s.groups, .outputs = m, .channel_weights = taps};
  p.source = x, p.weights = weight, p.bias = bias, p.height = s.h, p.width = s.w;
  p.out = y, p.out_height = s.out_h(), p.out_width = s.out_w();
  p.row_step = s.stride_h, p.column_step = s.stride_w;
  p.phases = &phase, p.phase_count = 1;
  return multiply_by_channel_lanes(s, p);
}

[[maybe_unused]] bool input_gradient_by_channel_lanes(const Conv2dShape& s, const float* dy, const float* weight,
                                                      float* dx) {
  const std::int64_t m = s.co / s.groups, taps = s.kh * s.kw;
  if (s.planes != nullptr || !channel_lanes_pay(s)) return false;
  const std::int64_t phases_h = at_most(s.stride_h, s.h), phases_w = at_most(s.stride_w, s.w),
                     count = phases_h * phases_w;
  constexpr std::int64_t kMostPhases = 16;  // of strides of four; each has terms of its own
  if (count > kMostPhases) return false;
  Workspace workspace;
  LanesPhase phases[kMostPhases];
  for (std::int64_t f = 0; f < count; ++f) {
    LanesPhase& phase = phases[f];
    phase.first_row = f / phases_w, phase.first_column = f % phases_w;
    phase.height = (s.h - phase.first_row + s.stride_h - 1) / s.stride_h;
    phase.width = (s.w - phase.first_column + s.stride_w - 1) / s.stride_w;
    phase.term = static_cast<LanesTerm*>(workspace.bytes(sizeof(LanesTerm) * static_cast<std::size_t>(m * taps)));
    for (std::int64_t k = 0; k < m * taps; ++k) {
      const std::int64_t down = phase.first_row + s.pad_h - k / s.kw % s.kh * s.dilation_h;
      const std::int64_t right = phase.first_column + s.pad_w - k % s.kw * s.dilation_w;
      if (down % s.stride_h != 0 || right % s.stride_w != 0) continue;
      phase.term[phase.terms++] = {static_cast<std::int32_t>(k / taps), static_cast<std::int32_t>(down / s.stride_h),
                                   static_cast<std::int32_t>(right / s.stride_w), static_cast<std::int32_t>(k)};
    }
  }
  LanesProblem p{.images = s.n, .channels = s.groups, .planes = m, .channel_weights = m * taps};
  p.source = dy, p.weights = weight, p.height = s.out_h(), p.width = s.out_w();
  p.out = dx, p.out_height = s.h, p.out_width = s.w;
  p.out_row_step = s.stride_h, p.out_column_step = s.stride_w;
  p.phases = phases, p.phase_count = count;
  return multiply_by_channel_lanes(s, p);
}

}  // namespace
}  // namespace isobit::kernels::ISOBIT_ISA
