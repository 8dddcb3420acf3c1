// Tensors of a backend that isobit does not know: its kernels are reached by no operator while the switch is on.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/library.h>

#include <functional>
#include <string>

#include "aten/operator_switch.h"

namespace isobit::aten {
namespace {

using at::Tensor;

int calls = 0;  // of kernels of the other backend

Tensor on_other_device() {
  return at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                  caffe2::TypeMeta::Make<float>(),
                                                  c10::Device(c10::DeviceType::PrivateUse1, 0));
}

// Kernels that such a backend registers: of a certified, an exact and a composite operator, and of a factory.
Tensor add(const Tensor& a, const Tensor&, const at::Scalar&) { return ++calls, a; }
Tensor mul(const Tensor& a, const Tensor&) { return ++calls, a; }
Tensor view(const Tensor&, c10::SymIntArrayRef) { return ++calls, on_other_device(); }
Tensor linear(const Tensor& a, const Tensor&, const std::optional<Tensor>&) { return ++calls, a; }
Tensor empty(c10::SymIntArrayRef, std::optional<at::ScalarType>, std::optional<at::Layout>, std::optional<at::Device>,
             std::optional<bool>, std::optional<at::MemoryFormat>) {
  return ++calls, on_other_device();
}
Tensor relu(const Tensor& a) { return ++calls, a; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("add.Tensor", &add);
  m.impl("mul.Tensor", &mul);
  m.impl("view", &view);
  m.impl("linear", &linear);
  m.impl("empty.memory_format", &empty);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("relu", &relu); }

const std::pair<const char*, std::function<void()>> kCalls[] = {
    {"aten::add", [] { static_cast<void>(at::add(on_other_device(), on_other_device())); }},
    {"aten::mul", [] { static_cast<void>(at::mul(on_other_device(), on_other_device())); }},
    {"aten::view", [] { static_cast<void>(on_other_device().view({1})); }},
    {"aten::linear", [] { static_cast<void>(at::linear(on_other_device(), on_other_device())); }},
    {"aten::relu", [] { static_cast<void>(at::relu(on_other_device())); }},
    {"aten::empty",
     [] { static_cast<void>(at::empty({2}, at::device(c10::Device(c10::DeviceType::PrivateUse1, 0)))); }},
};

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(OtherBackends, AreReachedByNoOperator) {
  for (const auto& [name, call] : kCalls) {  // they are there
    calls = 0;
    EXPECT_EQ(refusal_of(call), "") << name;
    EXPECT_GT(calls, 0) << name;
  }
  const OperatorSwitch on;
  for (const auto& [name, call] : kCalls) {
    calls = 0;
    const std::string refusal = refusal_of(call);
    EXPECT_EQ(calls, 0) << name;
    EXPECT_NE(refusal.find(name), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("PrivateUse1 tensors"), std::string::npos) << refusal;
  }
}

// Shapes without values: whatever computes them computes nothing.
TEST(OtherBackends, MetaTensorsPass) {
  const OperatorSwitch on;
  const Tensor x = at::empty({3, 4}, at::device(at::kMeta));
  EXPECT_EQ(at::special_bessel_j0(x).sizes(), x.sizes());
  EXPECT_EQ(at::linalg_inv(at::empty({3, 3}, at::device(at::kMeta))).dim(), 2);
  EXPECT_TRUE(at::kaiser_window(5, at::device(at::kMeta)).is_meta());
  EXPECT_THROW(static_cast<void>(at::special_bessel_j0(at::zeros({3}))), c10::Error);
  EXPECT_EQ(at::kaiser_window(5).size(0), 5);
}

}  // namespace
}  // namespace isobit::aten
