// Operators that a device's tensors reach by CPU fallback (by_host.h): the CPU's bits on the device, outputs and
// aliases.
#include <ATen/ATen.h>

#include <optional>
#include <tuple>

#include "aten/certified/support/by_host.h"
#include "aten/fake_cuda.h"
#include "aten/operator_cases.h"

namespace isobit::test {
namespace {

const at::Device kDevice(at::kCUDA, 0);

// call(x) gives the same on the CPU and on the device, and there on the device.
template <class Call>
void expect_same(const char* what, const Tensor& x, Call call) {
  SCOPED_TRACE(what);
  const Tensors expected = call(x), found = call(x.to(kDevice));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].device(), kDevice) << i;
    EXPECT_TRUE(same_bits(found[i].cpu(), expected[i])) << i;
  }
}
const auto list_of = [](const auto& results) {
  return std::apply([](const auto&... t) { return Tensors{t...}; }, results);
};

TEST(ByHost, OperatorsHaveTheCpusBits) {
  if (!fake_cuda()) GTEST_SKIP();
  at::manual_seed(40);
  const Tensor integers = at::randint(-3, 4, {6, 30}, at::kLong);
  Tensor x = integers.to(at::kFloat).div(2);
  x[1][7] = x[4][2] = std::numeric_limits<float>::quiet_NaN();
  x[3][5] = -0.0f;
  const aten::OperatorSwitch on;
  for (const Tensor& t : {x, integers, scattered(x), x.narrow(0, 0, 0)}) {
    expect_same("unique", t, [](const Tensor& a) { return list_of(at::_unique2(a, true, true, true)); });
    expect_same("unique pair", t, [](const Tensor& a) { return list_of(at::_unique(a, true, true)); });
    if (t.numel() > 0)
      expect_same("unique rows", t, [](const Tensor& a) { return list_of(at::unique_dim(a, 1, true, true, true)); });
    expect_same("mode", t, [](const Tensor& a) { return list_of(at::mode(a, 1, true)); });
  }
  expect_same("qr", at::randn({3, 7, 5}), [](const Tensor& a) { return list_of(at::linalg_qr(a, "reduced")); });
  expect_same("qr, no q", at::randn({5, 7}), [](const Tensor& a) { return list_of(at::linalg_qr(a, "r")); });
  expect_same("qr into tensors of other sizes", at::randn({5, 5}), [](const Tensor& a) {
    Tensor q = at::empty({0}, a.options()), r = at::empty({0}, a.options());
    const auto [same_q, same_r] = at::linalg_qr_out(q, r, a);
    EXPECT_TRUE(same_q.is_same(q) && same_r.is_same(r));
    return Tensors{q, r};
  });
  expect_same("qr into the matrix", at::randn({5, 5}), [](const Tensor& given) {
    Tensor a = given.clone(), r = at::empty_like(a);
    at::linalg_qr_out(a, r, a);
    return Tensors{a, r};
  });
}

TEST(ByHost, GradientsToo) {
  check({"mode", {at::randn({4, 9})}, [](const Tensors& t) { return std::get<0>(at::mode(t[0], 1)); }});
}

// Every kind of parameter and result.
std::tuple<Tensor, Tensor> joined(at::TensorList list, const std::optional<Tensor>& more,
                                  const std::optional<Tensor>& none, double factor) {
  EXPECT_EQ(aten::working_device(), nullptr);
  EXPECT_FALSE(none.has_value());
  Tensor sum = more->clone();
  for (const Tensor& tensor : list) {
    EXPECT_TRUE(tensor.is_cpu());
    sum = sum.add(tensor);
  }
  return {sum.mul(factor), Tensor()};
}
std::tuple<Tensor&, Tensor&> turned(const Tensor& x, Tensor& first, Tensor& second) {
  second.resize_({2}).fill_(first.sum().item<float>());
  return {second, first.copy_(x.flip(0))};
}
Tensor& doubled(Tensor& self) { return self.mul_(2); }

TEST(ByHost, BringsEveryKindOfArgument) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor a = at::randn({4}), b = at::randn({4}), c = at::randn({4});
  const Tensor there = a.to(kDevice), other = b.to(kDevice);
  const aten::OperatorSwitch on;
  const Tensor expected_sum = c.add(a).add(b).mul(3.0), expected_second = b.sum().expand({2}).contiguous();
  const Tensor expected_first = a.flip(0), expected_double = expected_first.mul(2), more = c.to(kDevice);
  const aten::DeviceWork work(kDevice);
  const Tensor list[] = {there, other};
  const auto [sum, nothing] = aten::ByHost<joined>::call(list, more, std::nullopt, 3.0);
  EXPECT_EQ(sum.device(), kDevice);
  EXPECT_FALSE(nothing.defined());
  EXPECT_TRUE(same_bits(sum.cpu(), expected_sum));

  Tensor first = other.clone(), second = at::empty({0}, kDevice);
  const auto [same_second, same_first] = aten::ByHost<turned>::call(there, first, second);
  EXPECT_TRUE(same_second.is_same(second) && same_first.is_same(first)) << "each is the caller's own";
  EXPECT_TRUE(same_bits(first.cpu(), expected_first));
  EXPECT_TRUE(same_bits(second.cpu(), expected_second));
  EXPECT_TRUE(aten::ByHost<doubled>::call(first).is_same(first));
  EXPECT_TRUE(same_bits(first.cpu(), expected_double));
  EXPECT_NE(aten::working_device(), nullptr) << "the device's scope goes on";
}

}  // namespace
}  // namespace isobit::test
