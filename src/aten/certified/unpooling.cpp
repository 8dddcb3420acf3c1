// Unpooling and col2im (contract, section 4).
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/pool3d.h"

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;

Tensor& into(const Tensor& result, Tensor& out) { return float_out("a pooling's out", result, out); }

// ---- unpooling: each value at its index, +0 elsewhere; of two at one place the later

Tensor unpooled(const char* op, const Tensor& input, const Tensor& indices, IntArrayRef out, std::int64_t rank) {
  const std::int64_t planes = planes_of(op, input, rank);
  TORCH_CHECK(indices.scalar_type() == at::kLong && indices.sizes() == input.sizes() &&
                  static_cast<std::int64_t>(out.size()) == rank,
              op, ": int64 indices of the input's sizes and ", rank, " output sizes expected");
  const Tensor x = contiguous(input), index = contiguous(indices);
  at::DimVector sizes(x.sizes().slice(0, static_cast<std::size_t>(x.dim() - rank)));
  sizes.append(out.begin(), out.end());
  const std::int64_t each = planes == 0 ? 0 : x.numel() / planes, plane = c10::multiply_integers(out);
  Tensor result = new_tensor(sizes);
  const std::int64_t stray = kernels::unpool(planes, each, plane, x.const_data_ptr<float>(),
                                             index.const_data_ptr<std::int64_t>(), result.mutable_data_ptr<float>());
  TORCH_CHECK_INDEX(stray < 0, op, ": index ", index.view({-1}).select(0, stray).item<std::int64_t>(),
                    " is outside an output of ", out);
  return result;
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, IntArrayRef out) {
  return unpooled("aten::max_unpool2d", x, indices, out, 2);
}
Tensor& max_unpool2d_out(const Tensor& x, const Tensor& indices, IntArrayRef out, Tensor& y) {
  return into(max_unpool2d(x, indices, out), y);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, IntArrayRef out, IntArrayRef, IntArrayRef) {
  return unpooled("aten::max_unpool3d", x, indices, out, 3);
}
Tensor& max_unpool3d_out(const Tensor& x, const Tensor& indices, IntArrayRef out, IntArrayRef stride,
                         IntArrayRef padding, Tensor& y) {
  return into(max_unpool3d(x, indices, out, stride, padding), y);
}

// ---- col2im: every tap's columns added in turn, a slice at a time

constexpr const char* kFold = "aten::col2im";
Tensor col2im(const Tensor& given, IntArrayRef out, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
              IntArrayRef stride) {
  require_float(kFold, given);
  for (const IntArrayRef values : {out, kernel, dilation, padding, stride}) {
    TORCH_CHECK(values.size() == 2, kFold, ": two values expected, got ", values);
  }
  TORCH_CHECK(given.dim() == 2 || given.dim() == 3, kFold, ": columns of two or three dimensions expected, got ",
              given.sizes());
  const Tensor columns = contiguous(given.dim() == 2 ? given.unsqueeze(0) : given);
  std::int64_t blocks[2];
  for (int d = 0; d < 2; ++d) {
    TORCH_CHECK(kernel[d] > 0 && stride[d] > 0 && dilation[d] > 0 && padding[d] >= 0, kFold,
                ": kernel size, stride and dilation must be positive, padding not negative");
    blocks[d] = (out[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
  const std::int64_t taps = kernel[0] * kernel[1];
  TORCH_CHECK(columns.size(1) % taps == 0 && columns.size(2) == blocks[0] * blocks[1], kFold, ": columns ",
              given.sizes(), " do not fit an output of ", out, " in ", blocks[0], " by ", blocks[1], " blocks");
  const std::int64_t n = columns.size(0), channels = columns.size(1) / taps;
  const Tensor from = columns.view({n, channels, kernel[0], kernel[1], blocks[0], blocks[1]});
  const Tensor padded = new_tensor({n, channels, out[0] + 2 * padding[0], out[1] + 2 * padding[1]}).zero_();
  const auto along = [&](const Tensor& t, int d, std::int64_t tap) {
    const std::int64_t first = tap * dilation[d];
    return t.slice(2 + d, first, first + (blocks[d] - 1) * stride[d] + 1, stride[d]);
  };
  for (std::int64_t h = 0; h < kernel[0]; ++h) {
    for (std::int64_t w = 0; w < kernel[1]; ++w) along(along(padded, 0, h), 1, w).add_(from.select(2, h).select(2, w));
  }
  const Tensor y = contiguous(padded.narrow(2, padding[0], out[0]).narrow(3, padding[1], out[1]));
  return given.dim() == 2 ? y.squeeze(0) : y;
}
Tensor& col2im_out(const Tensor& columns, IntArrayRef out, IntArrayRef kernel, IntArrayRef dilation,
                   IntArrayRef padding, IntArrayRef stride, Tensor& y) {
  return into(col2im(columns, out, kernel, dilation, padding, stride), y);
}

}  // namespace

std::vector<Entry> unpooling_operators() {
  constexpr std::string_view placed = "4: each value at its index, of two the later";
  constexpr std::string_view folded = "4: a chain over the taps (kh, kw)";
  return {
      certify<max_unpool2d>("aten::max_unpool2d", "", placed),
      certify<max_unpool2d_out>("aten::max_unpool2d", "out", placed),
      certify<max_unpool3d>("aten::max_unpool3d", "", placed),
      certify<max_unpool3d_out>("aten::max_unpool3d", "out", placed),
      certify<col2im>(kFold, "", folded),
      certify<col2im_out>(kFold, "out", folded),
  };
}

}  // namespace isobit::aten
