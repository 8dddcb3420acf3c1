// Checks that every family of certified operators shares: values and gradients against stock in float64, the
// same bits for every thread count and memory layout and on cuda:0 (fake_cuda.h), stock back afterwards. Tests only.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "aten/classification.h"
#include "aten/exact_operators.h"
#include "aten/operator_switch.h"
#include "kernels/threads.h"
#ifdef ISOBIT_FAKE_CUDA
#include "aten/fake_cuda.h"
#endif

namespace isobit::test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Bit for bit, any NaN equal to any NaN. Both on the CPU.
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (a.numel() == 0) return true;
  const Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  if (x.scalar_type() != at::kFloat) {
    return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
  }
  const float *p = x.const_data_ptr<float>(), *q = y.const_data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (p[i] != p[i] && q[i] != q[i]) continue;
    if (std::memcmp(p + i, q + i, sizeof(float)) != 0) return false;
  }
  return true;
}
inline bool same_bits(const Tensors& a, const Tensors& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
  return same;
}

// The same values in another order of memory: last dimension outermost, and a gap between the elements.
inline Tensor scattered(const Tensor& x) {
  if (x.dim() == 0) return x.clone();
  std::vector<std::int64_t> sizes(x.sizes().rbegin(), x.sizes().rend());
  sizes.push_back(2);
  Tensor wide = at::zeros(sizes, x.options()).select(-1, 0);
  std::vector<std::int64_t> order(x.dim());
  for (std::int64_t d = 0; d < x.dim(); ++d) order[d] = x.dim() - 1 - d;
  wide = wide.permute(order);
  wide.copy_(x.detach());
  return wide;
}

struct Case {
  std::string name;
  Tensors inputs;                                 // floating inputs get gradients
  std::function<Tensor(const Tensors&)> forward;  // one floating result
  double bound = 1e-5;                            // of the error relative to the largest value
  bool gradients = true;
  bool on_device = true;  // false: forward brings CPU tensors of its own, or is refused there
};

#ifdef ISOBIT_FAKE_CUDA
// Before the first backward: autograd counts the devices once.
inline const bool kFakeCuda = fake_cuda();

// With floating tensors stock's kernels of the device are reached to move, compare and select only.
inline void expect_exact_stock_calls() {
  for (const std::string& name : take_stock_arithmetic()) ADD_FAILURE() << "stock's " << name << " was reached";
}
#endif

// Result and gradients for a fixed, uneven gradient of the result.
inline Tensors evaluate(const Case& c, const Tensors& given, at::ScalarType type) {
  Tensors inputs;
  for (const Tensor& x : given) {
    Tensor input = x.is_floating_point() && x.scalar_type() != type ? x.to(type) : x;
    if (x.is_floating_point() && c.gradients) input = input.detach().requires_grad_();
    inputs.push_back(input);
  }
  const Tensor y = c.forward(inputs);
  Tensors results{y.detach()};
  if (!c.gradients) return results;
  const Tensor dy = (at::arange(y.numel()).remainder(7).sub(3.0)).to(type).div(4.0).view(y.sizes()).to(y.device());
  y.backward(dy);
  for (const Tensor& x : inputs) {
    if (x.is_floating_point() && x.grad().defined()) results.push_back(x.grad());
  }
  return results;
}

// The same on cuda:0, results brought back; under the switch. Large cases are left to real devices.
inline void check_on_device(const Case& c, const Tensors& expected) {
#ifdef ISOBIT_FAKE_CUDA
  std::int64_t elements = 0;
  for (const Tensor& x : c.inputs) elements += x.numel();
  if (!c.on_device || elements > 40000 || !kFakeCuda) return;
  Tensors there, back;
  (void)take_stock_calls();
  for (const Tensor& x : c.inputs) there.push_back(x.to(at::Device(at::kCUDA, 0)));
  for (const Tensor& result : evaluate(c, there, at::kFloat)) {
    EXPECT_TRUE(result.is_cuda());
    back.push_back(result.cpu());
  }
  EXPECT_TRUE(same_bits(back, expected)) << "on cuda:0";
  expect_exact_stock_calls();
#else
  (void)c, (void)expected;
#endif
}

inline void check(const Case& c) {
  SCOPED_TRACE(c.name);
  const Tensors expected = evaluate(c, c.inputs, at::kDouble);
  const Tensors stock = evaluate(c, c.inputs, at::kFloat);
  Tensors ours;
  {
    const aten::OperatorSwitch on;
    ours = evaluate(c, c.inputs, at::kFloat);
    for (const int threads : {1, 2, 3, 8}) {
      const kernels::ThreadCountScope scope(threads);
      EXPECT_TRUE(same_bits(evaluate(c, c.inputs, at::kFloat), ours)) << threads << " threads";
    }
    Tensors elsewhere;
    for (const Tensor& x : c.inputs) elsewhere.push_back(scattered(x));
    EXPECT_TRUE(same_bits(evaluate(c, elsewhere, at::kFloat), ours)) << "other strides";
    check_on_device(c, ours);
  }
  EXPECT_TRUE(same_bits(evaluate(c, c.inputs, at::kFloat), stock)) << "stock is not back";
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].sizes(), expected[i].sizes()) << "result " << i;
    if (ours[i].numel() == 0) continue;
    const double scale = std::max(expected[i].abs().max().item<double>(), 1e-30);
    const double error = (ours[i].to(at::kDouble) - expected[i]).abs().max().item<double>() / scale;
    EXPECT_LE(error, c.bound) << "result " << i << " of " << ours.size();
  }
}

// A refusal or an argument error, naming what it is about.
template <class Function>
void expect_throws(Function&& function, const std::string& part) {
  try {
    function();
    ADD_FAILURE() << "nothing thrown; expected a message with '" << part << "'";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(part), std::string::npos)
        << error.what_without_backtrace();
  }
}

}  // namespace isobit::test
