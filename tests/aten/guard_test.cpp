// The guard on the whole dispatcher: no operator outside the four classes, nothing refused that computes.
#include "aten/guard.h"

#include <dlfcn.h>

#include <cfenv>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include "aten/classification.h"
#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "call_operator.h"
#include "kernels/float_environment.h"

namespace isobit::aten {
namespace {

using test::call_operator;
using test::Values;

// The refusal's first line, or "" where the call went through; any other error is the test's failure.
template <typename Call>
std::string refusal_of(Call&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    EXPECT_EQ(what.rfind("isobit: ", 0), 0u) << what;
    return what.substr(0, what.find('\n'));
  }
  return {};
}

std::string full_name(const OperatorInfo& info) {
  return info.overload.empty() ? info.name : info.name + "." + info.overload;
}

// Every refused operator throws before it looks at its arguments, where a call enters: at autograd if it is a
// composite there, else at BackendSelect.
void expect_all_refused() {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::map<OperatorClass, int> count;
  for (const OperatorInfo& info : classify_all()) {
    ++count[info.kind];
    const auto op = dispatcher.findSchema({info.name, info.overload});
    if (!op || info.kind != OperatorClass::refused) continue;
    c10::Stack none(op->schema().arguments().size());
    EXPECT_NE(refusal_of([&] { op->callBoxedForDispatchKey(c10::DispatchKey::BackendSelect, none); }), "")
        << full_name(info);
    if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
      for (const auto key :
           {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradOther, c10::DispatchKey::AutogradNestedTensor}) {
        EXPECT_NE(refusal_of([&] { op->callBoxedForDispatchKey(key, none); }), "") << full_name(info);
      }
    }
  }
  EXPECT_GT(count[OperatorClass::exact], 300);
  EXPECT_GT(count[OperatorClass::composite], 300);
  EXPECT_GT(count[OperatorClass::refused], 1500);
  for (const auto& [kind, n] : count) {
    ::testing::Test::RecordProperty(std::string(to_string(kind)), n);
  }
}

TEST(Guard, RefusesWhateverIsInNoOtherClass) {
  const Guard guard;
  expect_all_refused();
}

TEST(Guard, NamesOperatorPlaceAndRemedy) {
  const at::Tensor x = at::ones({4});
  const Guard guard;
  begin_step(1);
  const ModuleScope model("model"), head("head"), activation("activation");
  try {
    at::special_bessel_j0(x);
    FAIL() << "bessel_j0 went through";
  } catch (const c10::Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.rfind("isobit: aten::special_bessel_j0 is not certified under isobit-0.1\n"
                         "  in     model.head.activation (step 1, forward)\n"
                         "  do     no certified operator has a name like it (isobit ops --class certified lists all): ",
                         0),
              0u)
        << what;
  }
  begin_step(-1);
}

TEST(Guard, GivesStockBack) {
  const at::Tensor x = at::full({4}, 0.5);
  const at::Tensor before = at::special_bessel_j0(x);
  {
    const Guard guard;
    EXPECT_NE(refusal_of([&] { at::special_bessel_j0(x); }), "");
  }
  EXPECT_TRUE(at::equal(at::special_bessel_j0(x), before));
}

// Raw loops, as a library may bring them: as composite, as CPU kernel, and without any tensor.
at::Tensor noise(const at::Tensor& x) {
  at::Tensor y = at::empty_like(x);
  for (std::int64_t i = 0; i < y.numel(); ++i) y.data_ptr<float>()[i] = static_cast<float>(i) * 0.1f;
  return y;
}
double dice() { return 0.5; }

void define_noise(torch::Library& library) {
  library.def("composite(Tensor x) -> Tensor", torch::CppFunction(TORCH_FN(noise)));
  library.def("kernel(Tensor x) -> Tensor");
  library.impl("kernel", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(noise)));
  library.def("explicit_composite(Tensor x) -> Tensor");
  library.impl("explicit_composite", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(noise)));
  library.def("no_tensor() -> float", torch::CppFunction(TORCH_FN(dice)));
}

void expect_noise(const std::string& space, bool refused) {
  const at::Tensor x = at::ones({3});
  const at::Tensor with_grad = at::ones({3}).requires_grad_(true);
  for (const std::string name : {"composite", "kernel", "explicit_composite"}) {
    for (const at::Tensor& input : {x, with_grad}) {
      const std::string what = refusal_of([&] { call_operator(space + "::" + name, {input}); });
      EXPECT_EQ(!what.empty(), refused) << space << "::" << name;
    }
  }
  EXPECT_EQ(!refusal_of([&] { call_operator(space + "::no_tensor", {}); }).empty(), refused);
}

TEST(Guard, RefusesOperatorsThatALibraryRegisteredBefore) {
  torch::Library library(torch::Library::DEF, "noise_before", std::nullopt, __FILE__, __LINE__);
  define_noise(library);
  expect_noise("noise_before", false);
  {
    const Guard guard;
    expect_noise("noise_before", true);
    expect_all_refused();
  }
  expect_noise("noise_before", false);
}

TEST(Guard, RefusesOperatorsThatALibraryRegistersLater) {
  std::optional<torch::Library> outliving;
  {
    const Guard guard;
    {
      torch::Library library(torch::Library::DEF, "noise_later", std::nullopt, __FILE__, __LINE__);
      define_noise(library);
      expect_noise("noise_later", true);
      expect_all_refused();
    }  // unloaded while the guard lives
    outliving.emplace(torch::Library::DEF, "noise_later", std::nullopt, __FILE__, __LINE__);
    define_noise(*outliving);
    expect_noise("noise_later", true);
  }
  expect_noise("noise_later", false);
}

at::Tensor twice(const at::Tensor& x) { return at::mul(x, 2); }

TEST(Guard, NoticesReplacedKernels) {
  {
    const Guard guard;
    EXPECT_EQ(refusal_of([] { check_kernels(); }), "");
    {
      torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
      library.impl("trunc", TORCH_FN(twice));
      EXPECT_NE(refusal_of([] { check_kernels(); }).find("aten::trunc"), std::string::npos);
    }
    EXPECT_NE(refusal_of([] { check_kernels(); }).find("aten::trunc"),
              std::string::npos);  // taken back, but it was there
  }
  EXPECT_EQ(refusal_of([] { check_kernels(); }), "");
  const Guard another;
  EXPECT_EQ(refusal_of([] { check_kernels(); }), "");
}

// A loop's steps look: at once after a library has been loaded, else when sixteen steps and a quarter of a second are
// over.
TEST(Guard, StepsNoticeReplacedKernels) {
  const Guard guard;
  const auto refusal_of_steps = [](int count) {
    std::string refused;
    for (int step = 0; step < count && refused.empty(); ++step) refused = refusal_of([=] { begin_step(step + 1); });
    return refused;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(refusal_of_steps(20), "");  // looked now
  torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library.impl("trunc", TORCH_FN(twice));
  if (void* const loaded =
          dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL)) {  // the C library's, which nobody uses
    EXPECT_NE(refusal_of_steps(1).find("aten::trunc"), std::string::npos);
    dlclose(loaded);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_NE(refusal_of_steps(20).find("aten::trunc"), std::string::npos);
  begin_step(-1);
}

at::Tensor other_product(const at::Tensor& a, const at::Tensor&) { return a.clone(); }

// Before autograd or behind it, of certified, exact, composite and refused operators: what a library put there before
// the guard was made does not compute under it.
TEST(Guard, RefusesOperatorsThatAnotherLibraryComputes) {
  const at::Tensor x = at::ones({3, 3});
  const at::Tensor learnt = at::ones({3, 3}).requires_grad_();
  const auto refusal_with = [&](c10::DispatchKey key, const char* name, const auto& kernel, const auto& call) {
    torch::Library library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    library.impl(name, kernel);
    const Guard guard;
    EXPECT_EQ(refusal_of([&] { at::add(x, learnt); }), "") << name;  // others are as they were
    return refusal_of(call);
  };
  const auto product = [&] { at::mm(x, learnt); };
  const std::string ours = "guard_test.cpp";
  using enum c10::DispatchKey;
  EXPECT_NE(refusal_with(AutogradCPU, "mm", TORCH_FN(other_product), product).find(ours), std::string::npos);
  EXPECT_NE(refusal_with(ADInplaceOrView, "mm", TORCH_FN(other_product), product).find(ours), std::string::npos);
  EXPECT_NE(refusal_with(CPU, "trunc", TORCH_FN(twice), [&] { at::trunc(x); }).find(ours), std::string::npos);
  EXPECT_NE(refusal_with(AutogradCPU, "trunc", TORCH_FN(twice), [&] { at::trunc(learnt); }).find(ours),
            std::string::npos);
  EXPECT_NE(
      refusal_with(CompositeImplicitAutograd, "matmul", TORCH_FN(other_product), [&] { at::matmul(x, x); }).find(ours),
      std::string::npos);
  EXPECT_NE(refusal_with(AutogradCPU, "special_bessel_j0", TORCH_FN(twice), [&] { at::special_bessel_j0(learnt); }),
            "");
  EXPECT_EQ(refusal_with(AutocastCPU, "mm", TORCH_FN(other_product), product), "");
  // With a text of its own in place of where it was registered.
  const auto named = [] { return torch::CppFunction(TORCH_FN(other_product)).debug("fast product"); };
  for (const c10::DispatchKey key : {AutogradCPU, CPU}) {
    torch::Library library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    library.impl("mul.Tensor", named());
    const Guard guard;
    EXPECT_NE(refusal_of([&] { at::mul(x, learnt); }).find("aten::mul"), std::string::npos) << c10::toString(key);
  }
  const Guard guard;
  EXPECT_EQ(refusal_of(product), "");
}

TEST(Guard, NoticesKernelsThatReplaceViewsBookkeeping) {
  const Guard guard;
  {
    torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::ADInplaceOrView, __FILE__, __LINE__);
    library.impl("mm", TORCH_FN(other_product));
    EXPECT_NE(refusal_of([] { check_kernels(); }).find("aten::mm"), std::string::npos);
  }
  begin_step(-1);
}

TEST(Guard, RefusesOtherLayouts) {
  const at::Tensor dense = at::ones({3, 4}), sparse = dense.to_sparse();
  const std::map<std::string, at::Tensor> layouts = {
      {"csr", dense.to_sparse_csr()},
      {"mkldnn", dense.to_mkldnn()},
      {"quantized", at::quantize_per_tensor(dense, 0.1, 0, at::kQInt8)},
      {"nested", at::_nested_tensor_from_tensor_list({dense, dense})},
  };
  const Guard guard;
  for (const auto& [name, tensor] : layouts) {
    EXPECT_NE(refusal_of([&] { at::mul(tensor, tensor); }), "") << name;
    EXPECT_NE(refusal_of([&] { tensor.clone(); }), "") << name;
    EXPECT_NE(refusal_of([&] { at::relu(tensor); }), "") << name;
    EXPECT_NE(refusal_of([&] { at::add(tensor, tensor); }), "") << name;
  }
  EXPECT_NE(refusal_of([&] { at::relu(sparse); }), "");  // what takes them: sparse_operators.h
  EXPECT_NE(refusal_of([&] { at::sum(sparse); }), "");
  EXPECT_NE(refusal_of([&] { dense.to_sparse(); }), "");
  EXPECT_NE(refusal_of([&] { dense.to_mkldnn(); }), "");
  EXPECT_NE(refusal_of([&] { at::quantize_per_tensor(dense, 0.1, 0, at::kQInt8); }), "");
}

TEST(Guard, PassesWhatTypesAndArgumentsMakeExact) {
  const at::Tensor floats = at::ones({4});
  const at::Tensor ints = at::arange(4);
  const Guard guard;
  EXPECT_EQ(refusal_of([&] { at::isin(ints, ints); }), "");
  EXPECT_EQ(refusal_of([&] { at::isin(floats, floats); }), "");
  EXPECT_EQ(refusal_of([&] { at::mul(floats.to(at::kDouble), floats); }), "");
  EXPECT_EQ(refusal_of([&] { at::mul(floats.to(at::kHalf), floats.to(at::kHalf)); }), "");
  EXPECT_NE(refusal_of([&] { at::mul(floats.to(at::kComplexFloat), 2); }), "");
  EXPECT_EQ(refusal_of([&] { floats.index_put_({ints}, at::add(floats, 1)); }), "");
  EXPECT_EQ(refusal_of([&] { floats.to(at::kLong); }), "");
  EXPECT_NE(refusal_of([&] { floats.to(at::kComplexFloat).to(at::kLong); }), "");
  EXPECT_EQ(refusal_of([&] { at::abs(floats.to(at::kHalf)); }), "");
  EXPECT_NE(refusal_of([&] { at::abs(floats.to(at::kComplexFloat)); }), "");
  EXPECT_EQ(refusal_of([&] { floats.view(at::kInt); }), "");
  EXPECT_EQ(refusal_of([&] { at::poisson(floats.abs()); }), "");
}

TEST(Guard, SortsStably) {
  const at::Tensor many = at::arange(1000).remainder(3).to(at::kFloat);
  const at::Tensor expected = std::get<1>(at::sort(many, true, 0, false));
  const Guard guard;
  EXPECT_TRUE(at::equal(std::get<1>(at::sort(many)), expected));
}

TEST(Guard, UndoesFlushToZero) {
  const at::Tensor small = at::full({100000}, 0x1.8p-127);
  const at::Tensor expected = at::mul(small, 0.5);
  ASSERT_GT(expected[0].item<float>(), 0.0f);
  const auto as_expected = [&] {
    return at::equal(at::mul(small, 0.5), expected) && at::equal(at::add(expected, expected), small);
  };
  at::set_num_threads(2);
  ASSERT_TRUE(at::globalContext().setFlushDenormal(true));
  EXPECT_FALSE(kernels::float_environment_is_ieee());
  {
    const OperatorSwitch on;  // set before
    EXPECT_TRUE(kernels::float_environment_is_ieee());
    EXPECT_TRUE(as_expected());
    at::globalContext().setFlushDenormal(true);  // set while it lives
    EXPECT_TRUE(as_expected());
    at::globalContext().setFlushDenormal(true);
    at::set_num_threads(3);  // new threads of torch's pool inherit the setting
    EXPECT_TRUE(as_expected());
  }
}

}  // namespace
}  // namespace isobit::aten
