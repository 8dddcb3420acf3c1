// Non-maximum suppression, and the average over a box (contract, section 16).
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <cmath>

#include "aten/refusal.h"
#include "aten/vision/vision.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten::vision {

using at::Tensor;

Tensor on_host(std::string_view op, const Tensor& tensor) {
  if (!(tensor.is_cpu() || tensor.is_cuda()) || tensor.layout() != at::kStrided || tensor.scalar_type() != at::kFloat) {
    refuse(op, "is certified for dense float32 tensors only", "convert the tensors first");
  }
  return tensor.to(at::kCPU).contiguous();
}

namespace {

constexpr const char* kNms = "torchvision::nms";
constexpr const char* kAlign = "torchvision::roi_align";
constexpr const char* kAlignBackward = "torchvision::_roi_align_backward";

// ---- suppression

struct Box {
  float x1, y1, x2, y2;
  [[nodiscard]] float area() const { return (x2 - x1) * (y2 - y1); }
};
float larger(float a, float b) { return a < b ? b : a; }
float smaller(float a, float b) { return b < a ? b : a; }

float overlap(const Box& a, const Box& b) {
  const float width = larger(0.0f, smaller(a.x2, b.x2) - larger(a.x1, b.x1));
  const float height = larger(0.0f, smaller(a.y2, b.y2) - larger(a.y1, b.y1));
  const float common = width * height;
  return common / ((a.area() + b.area()) - common);
}

Tensor nms(const Tensor& given, const Tensor& given_scores, double threshold) {
  const at::AutoDispatchBelowADInplaceOrView below;
  TORCH_CHECK(given.dim() == 2 && given.size(1) == 4, kNms, ": boxes of 4 numbers expected, got ", given.sizes());
  TORCH_CHECK(given_scores.dim() == 1 && given_scores.size(0) == given.size(0), kNms,
              ": one score a box expected, got ", given_scores.sizes(), " for boxes ", given.sizes());
  const Tensor boxes = on_host(kNms, given), scores = on_host(kNms, given_scores);
  const Tensor order = std::get<1>(scores.sort(std::optional<bool>(true), 0, /*descending=*/true));
  const auto box = [numbers = boxes.const_data_ptr<float>()](std::int64_t i) {
    return Box{numbers[4 * i], numbers[4 * i + 1], numbers[4 * i + 2], numbers[4 * i + 3]};
  };
  const std::int64_t* const by_score = order.const_data_ptr<std::int64_t>();
  const auto n = static_cast<std::size_t>(boxes.size(0));
  std::vector<bool> suppressed(n);
  std::vector<std::int64_t> kept;
  const kernels::FloatEnvironment environment;
  for (std::size_t i = 0; i < n; ++i) {
    if (suppressed[i]) continue;
    kept.push_back(by_score[i]);
    for (std::size_t j = i + 1; j < n; ++j) {
      if (static_cast<double>(overlap(box(by_score[i]), box(by_score[j]))) > threshold) suppressed[j] = true;
    }
  }
  return at::tensor(kept, at::kLong).to(given.device());
}

// ---- averages over boxes

struct Grid {
  float scale, offset;  // the boxes' numbers times scale, less offset, are pixels
  std::int64_t rows, columns, height, width, samples;
  bool aligned;
};

// Where an output's samples lie in the image, all outputs of a box one after the other.
struct Samples {
  std::int64_t image = 0, of_each = 0;  // of_each: samples an output
  std::vector<Taps> taps;
};

// Outside by more than a pixel: no weights. NaN is outside.
Taps taps_at(float y, float x, std::int64_t height, std::int64_t width) {
  Taps taps{};
  if (!(y >= -1.0f && y <= static_cast<float>(height) && x >= -1.0f && x <= static_cast<float>(width))) return taps;
  const auto along = [](float place, std::int64_t size, std::int64_t& low, std::int64_t& high, float& part) {
    const float inside = larger(place, 0.0f);
    low = static_cast<std::int64_t>(inside);
    if (low >= size - 1) {
      low = high = size - 1;
      part = 0.0f;
    } else {
      high = low + 1;
      part = inside - static_cast<float>(low);
    }
  };
  std::int64_t top, bottom, left, right;
  float down, across;
  along(y, height, top, bottom, down);
  along(x, width, left, right, across);
  const float up = 1.0f - down, back = 1.0f - across;
  taps = {{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
          {up * back, up * across, down * back, down * across}};
  return taps;
}

Samples samples_of(const char* op, const float* roi, std::int64_t images, const Grid& grid) {
  for (int i = 0; i < 5; ++i) TORCH_CHECK(std::isfinite(roi[i]), op, ": a box with a number that is not finite");
  Samples result;
  result.image = static_cast<std::int64_t>(roi[0]);
  TORCH_CHECK(roi[0] >= 0 && result.image < images, op, ": a box of image ", roi[0], " of ", images);
  const float left = roi[1] * grid.scale - grid.offset, top = roi[2] * grid.scale - grid.offset;
  float width = (roi[3] * grid.scale - grid.offset) - left, height = (roi[4] * grid.scale - grid.offset) - top;
  if (!grid.aligned) width = larger(width, 1.0f), height = larger(height, 1.0f);
  const float bin_height = height / static_cast<float>(grid.rows), bin_width = width / static_cast<float>(grid.columns);
  const float most = static_cast<float>(1 << 14);
  TORCH_CHECK(bin_height < most && bin_width < most, op, ": a box of more than ", most, " pixels an output");
  const auto count = [&](float bin) {
    return grid.samples > 0 ? grid.samples : static_cast<std::int64_t>(std::ceil(bin));
  };
  const std::int64_t down = std::max<std::int64_t>(count(bin_height), 0),
                     across = std::max<std::int64_t>(count(bin_width), 0);
  result.of_each = down * across;
  result.taps.reserve(static_cast<std::size_t>(grid.rows * grid.columns * result.of_each));
  const auto place = [](float start, std::int64_t bin, float size, std::int64_t sample, std::int64_t of) {
    return (start + static_cast<float>(bin) * size) +
           (static_cast<float>(sample) + 0.5f) * size / static_cast<float>(of);
  };
  for (std::int64_t row = 0; row < grid.rows; ++row) {
    for (std::int64_t column = 0; column < grid.columns; ++column) {
      for (std::int64_t i = 0; i < down; ++i) {
        for (std::int64_t j = 0; j < across; ++j) {
          result.taps.push_back(taps_at(place(top, row, bin_height, i, down), place(left, column, bin_width, j, across),
                                        grid.height, grid.width));
        }
      }
    }
  }
  return result;
}

struct Aligned {
  Tensor rois;
  Grid grid;
  std::vector<Samples> samples;
  std::int64_t outputs;  // of a box and channel
};

Aligned align(const char* op, const Tensor& given_rois, std::int64_t images, double scale, std::int64_t rows,
              std::int64_t columns, std::int64_t height, std::int64_t width, std::int64_t samples, bool aligned) {
  TORCH_CHECK(given_rois.dim() == 2 && given_rois.size(1) == 5, op, ": boxes of 5 numbers expected, got ",
              given_rois.sizes());
  TORCH_CHECK(rows > 0 && columns > 0 && height > 0 && width > 0, op, ": outputs ", rows, " by ", columns,
              " of an image of ", height, " by ", width);
  Aligned result{on_host(op, given_rois),
                 {static_cast<float>(scale), aligned ? 0.5f : 0.0f, rows, columns, height, width, samples, aligned},
                 {},
                 rows * columns};
  result.samples.resize(static_cast<std::size_t>(given_rois.size(0)));
  const float* const rois = result.rois.const_data_ptr<float>();
  kernels::parallel_for(0, given_rois.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r)
      result.samples[static_cast<std::size_t>(r)] = samples_of(op, rois + 5 * r, images, result.grid);
  });
  return result;
}

Tensor roi_align(const Tensor& given, const Tensor& given_rois, double scale, const c10::SymInt& rows,
                 const c10::SymInt& columns, std::int64_t ratio, bool aligned) {
  TORCH_CHECK(given.dim() == 4, kAlign, ": images of four dimensions expected, got ", given.sizes());
  const at::AutoDispatchBelowADInplaceOrView below;
  const Tensor x = on_host(kAlign, given);
  const kernels::FloatEnvironment environment;
  const Aligned a = align(kAlign, given_rois, x.size(0), scale, rows.expect_int(), columns.expect_int(), x.size(2),
                          x.size(3), ratio, aligned);
  const std::int64_t channels = x.size(1), plane = x.size(2) * x.size(3), boxes = a.rois.size(0);
  const Tensor y = at::zeros({boxes, channels, a.grid.rows, a.grid.columns});
  const float* const values = x.const_data_ptr<float>();
  float* const averages = y.mutable_data_ptr<float>();
  kernels::parallel_for(0, boxes * channels, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Samples& s = a.samples[static_cast<std::size_t>(i / channels)];
      const float* const image = values + (s.image * channels + i % channels) * plane;
      const Taps* taps = s.taps.data();
      for (std::int64_t output = 0; output < a.outputs; ++output) {
        float sum = 0.0f;
        for (std::int64_t sample = 0; sample < s.of_each; ++sample, ++taps) {
          for (int t = 0; t < 4; ++t) {
            if (taps->weight[t] != 0.0f) sum = sum + taps->weight[t] * image[taps->place[t]];
          }
        }
        averages[i * a.outputs + output] = sum / static_cast<float>(std::max<std::int64_t>(s.of_each, 1));
      }
    }
  });
  return y.to(given.device());
}

Tensor roi_align_backward(const Tensor& given, const Tensor& given_rois, double scale, const c10::SymInt& rows,
                          const c10::SymInt& columns, const c10::SymInt& images, const c10::SymInt& channel_count,
                          const c10::SymInt& height, const c10::SymInt& width, std::int64_t ratio, bool aligned) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const Tensor dy = on_host(kAlignBackward, given);
  const kernels::FloatEnvironment environment;
  const Aligned a = align(kAlignBackward, given_rois, images.expect_int(), scale, rows.expect_int(),
                          columns.expect_int(), height.expect_int(), width.expect_int(), ratio, aligned);
  const std::int64_t channels = channel_count.expect_int(), plane = a.grid.height * a.grid.width,
                     boxes = a.rois.size(0);
  TORCH_CHECK(dy.sizes() == at::IntArrayRef({boxes, channels, a.grid.rows, a.grid.columns}), kAlignBackward,
              ": a gradient of sizes ", dy.sizes());
  const Tensor dx = at::zeros({images.expect_int(), channels, a.grid.height, a.grid.width});
  const float* const gradients = dy.const_data_ptr<float>();
  float* const sums = dx.mutable_data_ptr<float>();
  kernels::parallel_for(0, channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t r = 0; r < boxes; ++r) {
        const Samples& s = a.samples[static_cast<std::size_t>(r)];
        float* const image = sums + (s.image * channels + c) * plane;
        const Taps* taps = s.taps.data();
        for (std::int64_t output = 0; output < a.outputs; ++output) {
          const float part = gradients[(r * channels + c) * a.outputs + output] /
                             static_cast<float>(std::max<std::int64_t>(s.of_each, 1));
          for (std::int64_t sample = 0; sample < s.of_each; ++sample, ++taps) {
            for (int t = 0; t < 4; ++t) {
              if (taps->weight[t] != 0.0f) image[taps->place[t]] = image[taps->place[t]] + taps->weight[t] * part;
            }
          }
        }
      }
    }
  });
  return dx.to(given.device());
}

}  // namespace

std::vector<LibraryOperator> box_operators() {
  using c10::KernelFunction;
  return {
      {"torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
       "16: overlaps in binary32, boxes by a stable sort of their scores",
       [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(nms)); }},
      {"torchvision::roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
       "pooled_width, "
       "int sampling_ratio, bool aligned) -> Tensor",
       "16: a chain over samples and their four neighbours",
       [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(roi_align)); }},
      {"torchvision::_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt "
       "pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool "
       "aligned) -> "
       "Tensor",
       "16: a chain over boxes, outputs, samples and their four neighbours",
       [] { return KernelFunction::makeFromUnboxedFunction(TORCH_FN(roi_align_backward)); }},
  };
}

}  // namespace isobit::aten::vision
