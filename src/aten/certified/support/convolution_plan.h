// Convolutions of one to three dimensions, plain ones, by the kernels of kernels/conv2d.h (contract, section 3).
//
// One dimension is two with a height of one. Three are two whose channels are (channel, kd): planes of the depth that
// meet one output are laid side by side, so that (ci, kd, kh, kw), (n, od, oh, ow) and (co, kd, kh, kw) are the orders
// of the two-dimensional kernels. A transposed convolution is the input gradient of a plain one. Private to this
// folder. Thread-safe.
#pragma once

#include "aten/certified/support/tensors.h"
#include "kernels/conv2d.h"

namespace isobit::aten {

// A plain convolution of `rank` dimensions; absent leading ones have size 1. plane: everything but the depth, which is
// its n's part.
struct ConvolutionPlan {
  std::int64_t rank = 2;
  std::int64_t depth = 1, kd = 1, stride_d = 1, pad_d = 0, dilation_d = 1;
  kernels::Conv2dShape plane;

  [[nodiscard]] std::int64_t out_d() const { return (depth + 2 * pad_d - dilation_d * (kd - 1) - 1) / stride_d + 1; }
  [[nodiscard]] at::DimVector input_sizes() const;
  [[nodiscard]] at::DimVector output_sizes() const;
  [[nodiscard]] at::DimVector weight_sizes() const;
};

// All tensors contiguous, of the plan's sizes; bias [co] or undefined.
[[nodiscard]] at::Tensor convolve(const ConvolutionPlan& plan, const at::Tensor& x, const at::Tensor& weight,
                                  const at::Tensor& bias);
[[nodiscard]] at::Tensor input_gradient(const ConvolutionPlan& plan, const at::Tensor& dy, const at::Tensor& weight);
[[nodiscard]] at::Tensor weight_gradient(const ConvolutionPlan& plan, const at::Tensor& x, const at::Tensor& dy);

}  // namespace isobit::aten
