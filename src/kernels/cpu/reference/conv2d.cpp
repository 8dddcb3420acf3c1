#include "kernels/conv2d.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/reference/dot_panel.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

std::int64_t blocks_of(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// x at (n, c, ih, iw); +0 outside the image (contract, section 3: padded positions are terms).
float pixel(const Conv2dShape& s, const float* x, std::int64_t n, std::int64_t c, std::int64_t ih, std::int64_t iw) {
  if (ih < 0 || ih >= s.h || iw < 0 || iw >= s.w) return 0.0f;
  return x[((n * s.ci + c) * s.h + ih) * s.w + iw];
}

float weight_at(const Conv2dShape& s, const float* weight, std::int64_t co, std::int64_t ci_in_group, std::int64_t kh,
                std::int64_t kw) {
  return weight[((co * (s.ci / s.groups) + ci_in_group) * s.kh + kh) * s.kw + kw];
}

// A dot product index k of (first, kh, kw), row-major.
struct Tap {
  std::int64_t first, kh, kw;
};
Tap tap_of(std::int64_t k, std::int64_t kh, std::int64_t kw) { return {k / (kh * kw), k / kw % kh, k % kw}; }

// The (row, column) of consecutive positions of a plane of that width, once per block and not once per term.
struct Positions {
  std::int64_t row[kPanelColumns], column[kPanelColumns];

  Positions(std::int64_t first, std::int64_t count, std::int64_t width) {
    for (std::int64_t c = 0; c < count; ++c) {
      row[c] = (first + c) / width;
      column[c] = (first + c) % width;
    }
  }
};

// next(shape, source) with the planes that the shape lists one after another.
template <class Next>
void with_planes(const Conv2dShape& s, std::int64_t planes, std::int64_t size, Next next) {
  std::vector<float> all(static_cast<std::size_t>(planes * size), 0.0f);
  for (std::int64_t i = 0; i < planes; ++i) {
    if (s.planes[i] != nullptr) std::copy_n(s.planes[i], size, all.data() + i * size);
  }
  Conv2dShape plain = s;
  plain.planes = nullptr;
  next(plain, all.data());
}

// Columns: a block of output positions (oh, ow) of one image. Rows: a block of one group's output channels.
void conv2d_forward(const Conv2dShape& s, const float* x, const float* weight, const float* bias, float* y) {
  if (s.planes != nullptr) {
    return with_planes(s, s.n * s.ci, s.h * s.w, [&](const Conv2dShape& plain, const float* all) {
      (conv2d_forward)(plain, all, weight, bias, y);  // not the public one
    });
  }
  const std::int64_t out_w = s.out_w(), plane = s.out_h() * out_w;
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups;
  const std::int64_t column_blocks = blocks_of(plane, kPanelColumns), row_blocks = blocks_of(co, kPanelRows);
  parallel_for(0, s.n * s.groups * row_blocks * column_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t first = index % column_blocks * kPanelColumns;
      const std::int64_t group = index / column_blocks / row_blocks % s.groups;
      const std::int64_t n = index / column_blocks / row_blocks / s.groups;
      const std::int64_t channel = group * co + index / column_blocks % row_blocks * kPanelRows;
      const std::int64_t rows = std::min(kPanelRows, (group + 1) * co - channel);
      const std::int64_t columns = std::min(kPanelColumns, plane - first);
      const Positions at(first, columns, out_w);
      dot_panel(
          rows, columns, ci * s.kh * s.kw,
          [&](std::int64_t k, float* row) {
            for (std::int64_t r = 0; r < rows; ++r) row[r] = weight[(channel + r) * ci * s.kh * s.kw + k];
          },
          [&](std::int64_t k, float* column) {
            const Tap t = tap_of(k, s.kh, s.kw);
            const std::int64_t down = t.kh * s.dilation_h - s.pad_h, right = t.kw * s.dilation_w - s.pad_w;
            for (std::int64_t c = 0; c < columns; ++c)
              column[c] = pixel(s, x, n, group * ci + t.first, at.row[c] * s.stride_h + down,
                                at.column[c] * s.stride_w + right);
          },
          [&](std::int64_t r, std::int64_t c, float product) {
            y[(n * s.co + channel + r) * plane + first + c] = bias == nullptr ? product : product + bias[channel + r];
          });
    }
  });
}

// The taps of one axis whose phase meets the elements i with i mod stride == phase: (i + pad - k * dilation)
// is a multiple of the stride.
std::vector<std::int64_t> meeting_taps(std::int64_t phase, std::int64_t taps, std::int64_t stride, std::int64_t pad,
                                       std::int64_t dilation) {
  std::vector<std::int64_t> meeting;
  for (std::int64_t k = 0; k < taps; ++k)
    if ((phase + pad - k * dilation) % stride == 0) meeting.push_back(k);
  return meeting;
}

// dx at the elements (phase_h + i * stride_h, phase_w + j * stride_w) of one image and group. Columns: a
// block of those elements. Rows: a block of the group's input channels.
void input_gradient_of_phase(const Conv2dShape& s, const float* dy, const float* weight, std::int64_t n,
                             std::int64_t group, std::int64_t phase_h, std::int64_t phase_w, float* dx) {
  const std::int64_t out_h = s.out_h(), out_w = s.out_w();
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups;
  const auto taps_h = meeting_taps(phase_h, s.kh, s.stride_h, s.pad_h, s.dilation_h);
  const auto taps_w = meeting_taps(phase_w, s.kw, s.stride_w, s.pad_w, s.dilation_w);
  const auto count_h = static_cast<std::int64_t>(taps_h.size()), count_w = static_cast<std::int64_t>(taps_w.size());
  const std::int64_t width = blocks_of(s.w - phase_w, s.stride_w);
  const std::int64_t elements = blocks_of(s.h - phase_h, s.stride_h) * width;
  for (std::int64_t first = 0; first < elements; first += kPanelColumns) {
    for (std::int64_t channel = 0; channel < ci; channel += kPanelRows) {
      const std::int64_t rows = std::min(kPanelRows, ci - channel), columns = std::min(kPanelColumns, elements - first);
      const auto tap = [&](std::int64_t k) {
        const Tap t = tap_of(k, count_h, count_w);
        return Tap{group * co + t.first, taps_h[static_cast<std::size_t>(t.kh)],
                   taps_w[static_cast<std::size_t>(t.kw)]};
      };
      const Positions at(first, columns, width);
      dot_panel(
          rows, columns, co * count_h * count_w,
          [&](std::int64_t k, float* row) {
            const Tap t = tap(k);
            for (std::int64_t r = 0; r < rows; ++r) row[r] = weight_at(s, weight, t.first, channel + r, t.kh, t.kw);
          },
          [&](std::int64_t k, float* column) {
            const Tap t = tap(k);
            // Exact divisions: the tap belongs to the phase.
            const std::int64_t down = (phase_h + s.pad_h - t.kh * s.dilation_h) / s.stride_h;
            const std::int64_t right = (phase_w + s.pad_w - t.kw * s.dilation_w) / s.stride_w;
            const float* plane = dy + (n * s.co + t.first) * out_h * out_w;
            for (std::int64_t c = 0; c < columns; ++c) {
              const std::int64_t oh = at.row[c] + down, ow = at.column[c] + right;
              const bool inside = oh >= 0 && oh < out_h && ow >= 0 && ow < out_w;
              column[c] = inside ? plane[oh * out_w + ow] : 0.0f;
            }
          },
          [&](std::int64_t r, std::int64_t c, float product) {
            const std::int64_t h = phase_h + at.row[c] * s.stride_h, w = phase_w + at.column[c] * s.stride_w;
            dx[((n * s.ci + group * ci + channel + r) * s.h + h) * s.w + w] = product;
          });
    }
  }
}

void conv2d_input_gradient(const Conv2dShape& s, const float* dy, const float* weight, float* dx) {
  if (s.planes != nullptr) {
    return with_planes(s, s.n * s.co, s.out_h() * s.out_w(), [&](const Conv2dShape& plain, const float* all) {
      (conv2d_input_gradient)(plain, all, weight, dx);
    });
  }
  parallel_for(0, s.n * s.groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index)
      for (std::int64_t phase_h = 0; phase_h < std::min(s.stride_h, s.h); ++phase_h)
        for (std::int64_t phase_w = 0; phase_w < std::min(s.stride_w, s.w); ++phase_w)
          input_gradient_of_phase(s, dy, weight, index / s.groups, index % s.groups, phase_h, phase_w, dx);
  });
}

// Columns: a block of (ci, kh, kw). Rows: a block of one group's output channels. Terms: (n, oh, ow).
void conv2d_weight_gradient(const Conv2dShape& s, const float* x, const float* dy, float* dweight) {
  if (s.planes != nullptr) {
    return with_planes(s, s.n * s.ci, s.h * s.w, [&](const Conv2dShape& plain, const float* all) {
      (conv2d_weight_gradient)(plain, all, dy, dweight);
    });
  }
  const std::int64_t out_h = s.out_h(), out_w = s.out_w(), plane = out_h * out_w;
  const std::int64_t ci = s.ci / s.groups, co = s.co / s.groups, taps = ci * s.kh * s.kw;
  const std::int64_t column_blocks = blocks_of(taps, kPanelColumns), row_blocks = blocks_of(co, kPanelRows);
  parallel_for(0, s.groups * row_blocks * column_blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t first = index % column_blocks * kPanelColumns, group = index / column_blocks / row_blocks;
      const std::int64_t channel = group * co + index / column_blocks % row_blocks * kPanelRows;
      const std::int64_t rows = std::min(kPanelRows, (group + 1) * co - channel);
      const std::int64_t columns = std::min(kPanelColumns, taps - first);
      Tap tap[kPanelColumns];
      for (std::int64_t c = 0; c < columns; ++c) tap[c] = tap_of(first + c, s.kh, s.kw);
      dot_panel(
          rows, columns, s.n * plane,
          [&](std::int64_t k, float* row) {
            const std::int64_t n = k / plane;
            for (std::int64_t r = 0; r < rows; ++r) row[r] = dy[(n * s.co + channel + r) * plane + k % plane];
          },
          [&](std::int64_t k, float* column) {
            const Tap at = tap_of(k, out_h, out_w);  // (n, oh, ow)
            const std::int64_t top = at.kh * s.stride_h - s.pad_h, left = at.kw * s.stride_w - s.pad_w;
            for (std::int64_t c = 0; c < columns; ++c)
              column[c] = pixel(s, x, at.first, group * ci + tap[c].first, top + tap[c].kh * s.dilation_h,
                                left + tap[c].kw * s.dilation_w);
          },
          [&](std::int64_t r, std::int64_t c, float product) { dweight[(channel + r) * taps + first + c] = product; });
    }
  });
}

}  // namespace

void fill_conv2d(KernelTable& t) {
  t.conv2d_forward = conv2d_forward;
  t.conv2d_input_gradient = conv2d_input_gradient;
  t.conv2d_weight_gradient = conv2d_weight_gradient;
}

}  // namespace isobit::kernels::reference
