// The two forms of a refusal: c10::Error for C++, torch::PyTorchError where a host has named a Python class.
#include "aten/refusal.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "aten/operator_switch.h"
#include "aten/pytorch_error.h"

namespace isobit::aten {
namespace {

constexpr const char* kFirstWords = "isobit: aten::special_bessel_j0 is not certified under isobit-";

// Names a class for one test.
class RefusalType {
 public:
  explicit RefusalType(PyObject* type) { set_refusal_type(type); }
  ~RefusalType() { set_refusal_type(nullptr); }
  RefusalType(const RefusalType&) = delete;
  RefusalType& operator=(const RefusalType&) = delete;
};

// What a refused operator throws; null if it goes through.
std::exception_ptr thrown_by_refused() {
  try {
    at::special_bessel_j0(at::ones({3}));
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

template <typename Kind, typename Check>
void expect_caught_as(const std::exception_ptr& thrown, Check&& check) {
  ASSERT_TRUE(thrown);
  try {
    std::rethrow_exception(thrown);
  } catch (Kind& error) {
    check(error);
    return;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "caught as another kind: " << error.what();
  }
}

TEST(Refusal, IsAnErrorOfPyTorchInCpp) {
  const OperatorSwitch on;
  expect_caught_as<const c10::Error>(thrown_by_refused(), [](const c10::Error& error) {
    EXPECT_EQ(std::string(error.what_without_backtrace()).rfind(kFirstWords, 0), 0U) << error.what();
    EXPECT_TRUE(is_refusal(error));
  });
}

TEST(Refusal, NamesThePythonClassThatAHostHasSet) {
  int python_class = 0;
  auto* const type = reinterpret_cast<PyObject*>(&python_class);  // never looked into here
  const OperatorSwitch on;
  {
    const RefusalType set(type);
    expect_caught_as<torch::PyTorchError>(thrown_by_refused(), [type](torch::PyTorchError& error) {
      EXPECT_EQ(std::string(error.what()).rfind(kFirstWords, 0), 0U) << error.what();
      EXPECT_EQ(error.python_type(), type);
      EXPECT_TRUE(is_refusal(error));
    });
    std::exception_ptr of_another_thread;
    std::thread([&of_another_thread] { of_another_thread = thrown_by_refused(); }).join();
    expect_caught_as<torch::PyTorchError>(of_another_thread,
                                          [type](torch::PyTorchError& error) { EXPECT_EQ(error.python_type(), type); });
  }
  expect_caught_as<const c10::Error>(thrown_by_refused(), [](const c10::Error&) {});
}

TEST(Refusal, OtherErrorsAreNone) {
  EXPECT_FALSE(is_refusal(std::runtime_error("isobit: aten::special_bessel_j0 is not certified")));
  const OperatorSwitch on;
  try {
    at::mm(at::ones({2, 3}), at::ones({2, 3}));
    ADD_FAILURE() << "shapes do not fit";
  } catch (const c10::Error& error) {
    EXPECT_FALSE(is_refusal(error)) << error.what();
  }
}

}  // namespace
}  // namespace isobit::aten
