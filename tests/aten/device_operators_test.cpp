// Certified operators on cuda:0 (the fake one: fake_cuda.h) give the CPU's bits: values and gradients.
#include <ATen/ATen.h>

#include "aten/fake_cuda.h"
#include "aten/operator_cases.h"

namespace isobit::test {
namespace {

const at::Device kDevice(at::kCUDA, 0);

Tensor values(at::IntArrayRef sizes, int salt = 0) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return at::arange(n).mul(37).add(11 * salt).remainder(41).sub(20).to(at::kFloat).div(8.0).view(sizes);
}

TEST(DeviceOperators, TensorsGoThereAndBack) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor x = values({3, 5});
  const Tensor y = x.to(kDevice);
  EXPECT_EQ(y.device(), kDevice);
  EXPECT_TRUE(same_bits(y.cpu(), x));
  EXPECT_TRUE(same_bits(y.t().contiguous().cpu(), x.t().contiguous()));
  EXPECT_TRUE(same_bits(y.select(0, 1).clone().cpu(), x.select(0, 1)));
}

TEST(DeviceOperators, ProductOnTheDevice) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor a = values({7, 19}), b = values({19, 5}, 1);
  const aten::OperatorSwitch on;
  const Tensor c = at::mm(a.to(kDevice), b.to(kDevice));
  EXPECT_EQ(c.device(), kDevice);
  EXPECT_TRUE(same_bits(c.cpu(), at::mm(a, b)));
}

}  // namespace
}  // namespace isobit::test
