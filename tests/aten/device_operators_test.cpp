// Operators on cuda:0 (the fake one: fake_cuda.h): the CPU's bits, stock's arithmetic never reached, clear errors.
//
// The families' own programs run their cases on the device too (operator_cases.h); here is what only a device has.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "aten/certified.h"
#include "aten/classification.h"
#include "aten/device_work.h"
#include "aten/exact_operators.h"
#include "aten/fake_cuda.h"
#include "aten/operator_cases.h"
#include "call_operator.h"
#include "hostile_samples.h"

namespace isobit::test {
namespace {

using aten::DeviceKind;
using aten::OperatorClass;

const at::Device kDevice(at::kCUDA, 0);

Tensor hostile(at::IntArrayRef sizes, std::uint64_t seed) { return hostile_tensor(sizes, at::kFloat, seed); }

// An isobit refusal's or error's text; "" where the call went through.
template <class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

void expect_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(message.find(word), message.npos) << "'" << word << "' is not in: " << message;
}

// ---- moving

TEST(DeviceOperators, TensorsGoThereAndBack) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor x = hostile({3, 5}, 1);
  const aten::OperatorSwitch on;
  const Tensor y = x.to(kDevice);
  EXPECT_EQ(y.device(), kDevice);
  EXPECT_TRUE(same_bits(y.cpu(), x));
  EXPECT_TRUE(same_bits(y.t().contiguous().cpu(), x.t().contiguous()));
  EXPECT_TRUE(same_bits(y.select(0, 1).clone().cpu(), x.select(0, 1)));
  EXPECT_TRUE(same_bits(at::cat({y, y.flip(0)}).cpu(), at::cat({x, x.flip(0)})));
  EXPECT_TRUE(same_bits(at::where(y > 0, y, at::zeros_like(y)).cpu(), at::where(x > 0, x, at::zeros_like(x))));
  EXPECT_EQ(at::arange(7, at::TensorOptions(kDevice).dtype(at::kLong)).mul(3).sum().item<std::int64_t>(), 63);
}

// ---- one IEEE operation per element: stock's on the CPU, ours on a device

// Results of an overload on given arguments with tensors on a device, brought back.
Values call_on(at::Device device, const std::string& name, const Values& arguments) {
  Values moved = arguments;
  for (c10::IValue& value : moved) {
    if (value.isTensor() && value.toTensor().dim() > 0) value = value.toTensor().clone().to(device);
  }
  Values results = call_operator(name, moved);
  for (c10::IValue& value : results) {
    if (value.isTensor()) value = value.toTensor().cpu();
  }
  return results;
}

void expect_same_on_device(const std::string& name, const Values& arguments) {
  SCOPED_TRACE(name);
  const Values expected = call_on(at::kCPU, name, arguments), found = call_on(kDevice, name, arguments);
  ASSERT_EQ(expected.size(), found.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(digest_of(found[i]), digest_of(expected[i]));
}

TEST(DeviceOperators, RoundedOperationsHaveTheCpusBits) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor a = hostile({7, 31, 33}, 2), row = hostile({33}, 3), column = hostile({31, 1}, 4);
  const Tensor turned = hostile({33, 31, 7}, 5).permute({2, 1, 0}), one = hostile({1, 1, 1}, 6);
  const Tensor number = at::scalar_tensor(0.1, at::kDouble), none = at::empty({0, 31, 33});
  const aten::OperatorSwitch on;
  for (const std::string op : {"mul", "div", "add", "sub"}) {
    for (const Tensor& b : {turned, row, column, one, number, at::scalar_tensor(3.0f), at::scalar_tensor(7, at::kLong),
                            at::arange(-16, 17)}) {
      expect_same_on_device("aten::" + op + ".Tensor", {a, b});
      expect_same_on_device("aten::" + op + "_.Tensor", {a, b});
      if (b.dim() > 0) expect_same_on_device("aten::" + op + ".Tensor", {b, turned});
    }
    for (const double scalar : {3.0, 0.1, -0.0, 1e-45, 1e300, std::nan("")}) {
      expect_same_on_device("aten::" + op + ".Scalar", {a, scalar});
      expect_same_on_device("aten::" + op + "_.Scalar", {turned, scalar});
    }
    expect_same_on_device("aten::" + op + ".Tensor", {none, row});
  }
  expect_same_on_device("aten::div.Tensor", {at::arange(-20, 20), at::arange(1, 41)});
  expect_same_on_device("aten::reciprocal", {a});
  for (const std::string op : {"neg", "floor", "ceil", "trunc", "round", "frac", "sign", "sgn", "abs"}) {
    for (const Tensor& x : {a, turned, row.expand({5, 33}), one, none}) {
      expect_same_on_device("aten::" + op, {x});
      if (x.sizes() != at::IntArrayRef({5, 33})) expect_same_on_device("aten::" + op + "_", {x});
    }
  }
  expect_same_on_device("aten::threshold", {a, 0.5, -1.0});
  expect_same_on_device("aten::threshold_", {turned, 0.5, -1.0});
}

// The exact tier's products, with their gradients: the CPU's bits, which are not the ordered tier's.
TEST(DeviceOperators, ExactProductsHaveTheCpusBits) {
  if (!fake_cuda()) GTEST_SKIP();
  const auto normal = [](at::IntArrayRef sizes, std::uint64_t seed) {
    return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
  };
  using Tensors = std::vector<Tensor>;
  const auto gradients = [](const Tensor& y, const Tensors& inputs) {
    Tensors all = torch::autograd::grad({y}, inputs, {at::ones_like(y)});
    all.push_back(y.detach());
    return all;
  };
  struct Product {
    const char* name;
    Tensors inputs;
    std::function<Tensor(const Tensors&)> compute;
  };
  const Product products[] = {
      {"mm", {normal({17, 300}, 1), normal({300, 70}, 2)}, [](const Tensors& t) { return at::mm(t[0], t[1]); }},
      {"mm, transposed",
       {normal({300, 17}, 1), normal({70, 300}, 2)},
       [](const Tensors& t) { return at::mm(t[0].t(), t[1].t()); }},
      {"linear",
       {normal({5, 33}, 3), normal({9, 33}, 4), normal({9}, 5)},
       [](const Tensors& t) { return at::linear(t[0], t[1], t[2]); }},
      {"bmm, broadcast",
       {normal({1, 7, 40}, 6), normal({3, 40, 6}, 7)},
       [](const Tensors& t) {
         return at::bmm(t[0].expand({3, 7, 40}), t[1]);
       }},
      {"addmm",
       {normal({8}, 8), normal({4, 30}, 9), normal({30, 8}, 10)},
       [](const Tensors& t) { return at::addmm(t[0], t[1], t[2], 0.5, -1.5); }},
      {"mv", {normal({20, 90}, 11), normal({90}, 12)}, [](const Tensors& t) { return at::mv(t[0], t[1]); }},
      {"attention",
       {normal({2, 2, 20, 8}, 13), normal({2, 2, 20, 8}, 14), normal({2, 2, 20, 8}, 15)},
       [](const Tensors& t) { return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, true); }},
      {"conv2d",
       {normal({2, 6, 9, 8}, 16), normal({4, 3, 3, 3}, 17), normal({4}, 18)},
       [](const Tensors& t) { return at::conv2d(t[0], t[1], t[2], 2, 1, 1, 2); }},
      {"conv1d",
       {normal({2, 3, 40}, 19), normal({5, 3, 4}, 20), normal({5}, 21)},
       [](const Tensors& t) { return at::conv1d(t[0], t[1], t[2], 1, 2); }},
      {"conv_transpose2d",
       {normal({2, 4, 5, 6}, 22), normal({4, 3, 3, 3}, 23), normal({3}, 24)},
       [](const Tensors& t) { return at::conv_transpose2d(t[0], t[1], t[2], 2, 1, 1); }},
  };
  for (const Product& product : products) {
    const auto computed = [&](const at::Device& device, contract::ProductTier tier) {
      const aten::OperatorSwitch on(tier);
      Tensors inputs;
      for (const Tensor& t : product.inputs) inputs.push_back(t.to(device).detach().requires_grad_());
      Tensors all = gradients(product.compute(inputs), inputs);
      for (Tensor& t : all) t = t.cpu();
      return all;
    };
    const Tensors expected = computed(at::kCPU, contract::ProductTier::exact3);
    const Tensors found = computed(kDevice, contract::ProductTier::exact3);
    const Tensors ordered = computed(kDevice, contract::ProductTier::ordered);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(same_bits(found[i], expected[i])) << product.name << " " << i;
    EXPECT_FALSE(same_bits(ordered.back(), expected.back())) << product.name;
  }
  const aten::OperatorSwitch on(contract::ProductTier::exact3);
  expect_words(message_of([&] {
                 (void)at::conv3d(normal({1, 1, 4, 4, 4}, 1).to(kDevice), normal({1, 1, 2, 2, 2}, 2).to(kDevice));
               }),
               {"three spatial dimensions", "exact3"});
}

TEST(DeviceOperators, OutputsMayOverlapInputs) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor x = hostile({40}, 7);
  const aten::OperatorSwitch on;
  const Tensor expected = at::mul(x.slice(0, 0, 30), x.slice(0, 10, 40));
  Tensor y = x.to(kDevice);
  Tensor shifted = y.slice(0, 5, 35);
  at::mul_out(shifted, y.slice(0, 0, 30), y.slice(0, 10, 40));
  EXPECT_TRUE(same_bits(shifted.cpu(), expected));
  Tensor same = x.to(kDevice);
  at::mul_out(same, same, same);
  EXPECT_TRUE(same_bits(same.cpu(), at::mul(x, x)));
}

// ---- the guard

// Every overload that is exact on devices runs there on hostile samples; every other one is refused there.
TEST(DeviceGuard, ExactOperatorsPassAndOthersAreRefused) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor x = hostile({4, 4}, 8).to(kDevice), ints = at::arange(16).view({4, 4}).to(kDevice);
  const aten::OperatorSwitch on;
  for (const aten::ExactOperator& exact : aten::exact_operators()) {
    const std::string name(exact.name);
    const auto kind = aten::class_of(name, DeviceKind::cuda);
    if (name.rfind("aten::", 0) != 0 || kind != OperatorClass::refused) continue;
    c10::Stack none(find_operator(name).schema().arguments().size());
    const std::string message =
        message_of([&] { find_operator(name).callBoxedForDispatchKey(c10::DispatchKey::CUDA, none); });
    expect_words(message, {"isobit: ", name.c_str(), "is not certified on a GPU", "do     "});
  }
  expect_words(message_of([&] { at::special_bessel_j0(x); }),
               {"isobit: aten::special_bessel_j0 is not certified", "certified operator"});
  expect_words(message_of([&] { at::mul(x.to(at::kDouble), 2); }), {"aten::mul", "float32 only", ".float()"});
  expect_words(message_of([&] { x.to(at::kHalf); }), {"aten::", "Half", "on the CPU"});
  const Tensor index = at::tensor({0, 1, 1, 2}, at::kLong).view({4, 1}).to(kDevice);
  EXPECT_TRUE(same_bits(at::scatter(x, 1, index, x).cpu(), at::scatter(x.cpu(), 1, index.cpu(), x.cpu())));
  const Tensor twice = at::zeros({4, 2}, at::kLong).to(kDevice);
  expect_words(message_of([&] { at::scatter(x, 1, twice, x); }), {"aten::scatter", "without repetitions", "the CPU"});
}

// Whatever the four classes call certified on the CPU is certified on the device too: stock's is not met. Sparse
// tensors are the CPU's alone, and what only they have is refused there.
TEST(DeviceGuard, EveryCertifiedOperatorIsOursOnTheDevice) {
  if (!fake_cuda()) GTEST_SKIP();
  const aten::OperatorSwitch on;
  const std::set<std::string> of_sparse_tensors = {"aten::_coalesce", "aten::_to_dense", "aten::sparse_mask"};
  for (const aten::OperatorInfo& info : aten::classify_all(DeviceKind::cpu)) {
    if (info.kind != OperatorClass::certified) continue;
    const std::string name = info.overload.empty() ? info.name : info.name + "." + info.overload;
    const auto on_device = aten::class_of(name, DeviceKind::cuda);
    if (of_sparse_tensors.count(name) != 0) {
      EXPECT_EQ(on_device, OperatorClass::refused) << name;
      continue;
    }
    EXPECT_EQ(on_device, OperatorClass::certified) << name;
    const auto op = find_operator(name);
    EXPECT_TRUE(op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) ||
                op.hasKernelForDispatchKey(c10::DispatchKey::BackendSelect))
        << name;
  }
}

// A network's step meets stock's kernels to copy and compare only; without the switch it meets them for everything.
TEST(DeviceGuard, StocksArithmeticIsNotReached) {
  if (!fake_cuda()) GTEST_SKIP();
  const auto step = [] {
    const Tensor x = at::arange(4 * 3 * 81).remainder(13).to(at::kFloat).div(4).view({4, 3, 9, 9}).to(kDevice);
    Tensor w = at::full({5, 3, 3, 3}, 0.25, kDevice).requires_grad_(), b = at::ones({5}, kDevice).requires_grad_();
    Tensor y = at::batch_norm(at::conv2d(x, w, b, 1, 1), {}, {}, {}, {}, true, 0.1, 1e-5, true);
    y = at::dropout(at::max_pool2d(at::relu(y), 2), 0.3, true).flatten(1);
    at::cross_entropy_loss(at::linear(y, at::full({6, y.size(1)}, 0.1, kDevice)), at::zeros({4}, at::kLong).to(kDevice))
        .backward();
    const at::NoGradGuard no_grad;
    w.sub_(w.grad(), 0.1);
    b.sub_(b.grad().mul(0.3).div(7));
  };
  step();
  int arithmetic = 0;
  for (const std::string& name : take_stock_calls()) {
    arithmetic += aten::class_of(name, DeviceKind::cuda) == OperatorClass::certified;
  }
  EXPECT_GT(arithmetic, 3);
  const aten::OperatorSwitch on;
  (void)take_stock_calls();
  step();
  expect_exact_stock_calls();
}

// ---- bad input

TEST(DeviceErrors, TensorsOfTwoDevices) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor a = hostile({4, 4}, 10), there = a.to(kDevice), number = at::scalar_tensor(2.0f);
  const aten::OperatorSwitch on;
  expect_words(message_of([&] { at::mm(there, a); }), {"aten::mm needs all tensors on one device", "mat2 is on cpu",
                                                       "self on cuda:0", "do     ", ".to(\"cuda:0\")"});
  expect_words(message_of([&] { at::add(a, there); }), {"aten::add.Tensor", "self is on cpu", "other on cuda:0"});
  expect_words(message_of([&] { at::mm(there, number.view({1, 1}).expand({4, 4})); }), {"mat2 is on cpu"});
  Tensor out = at::empty({4, 4});
  expect_words(message_of([&] { at::mm_out(out, there, there); }), {"aten::mm.out", "out is on cpu"});
  EXPECT_TRUE(same_bits(at::mul(there, number).cpu(), at::mul(a, number))) << "a number may stay on the host";
}

TEST(DeviceErrors, BuildsAndMachinesWithoutTheDevice) {
  if (!fake_cuda()) GTEST_SKIP();
  EXPECT_EQ(aten::device_names().size(), 1u);
  aten::require_device(at::kCPU);
  aten::require_device(at::kCUDA);
  aten::require_device(kDevice);
  expect_words(message_of([] {
                 aten::require_device({at::kCUDA, 3});
               }),
               {"cuda:3", "no such device", "cuda:0, emulated device"});
  expect_words(message_of([] { aten::require_device(at::kMeta); }), {"meta", "cpu and cuda"});

  const Tensor a = hostile({4, 4}, 11).to(kDevice);
  const aten::OperatorSwitch on;
  const kernels::DeviceBackend* backend = kernels::device_backend();
  kernels::DeviceBackend absent = *backend;
  absent.device_count = [] { return 0; };
  kernels::set_device_backend(&absent);
  expect_words(message_of([] { aten::require_device(kDevice); }), {"cuda:0", "no NVIDIA GPU answers", "nvidia-smi"});
  absent.table = nullptr;
  expect_words(message_of([] { aten::require_device(kDevice); }), {"cuda:0", "no kernels for CUDA devices", "nvcc"});
  expect_words(message_of([&] { at::mm(a, a); }), {"aten::mm", "no kernels for CUDA devices", "nvcc"});
  kernels::set_device_backend(backend);
  EXPECT_EQ(message_of([&] { at::mm(a, a); }), "");
}

TEST(DeviceErrors, MemoryRunsOut) {
  if (!fake_cuda()) GTEST_SKIP();
  const Tensor a = hostile({256, 512}, 12), there = a.to(kDevice);
  const aten::OperatorSwitch on;
  const std::size_t before = fake_cuda_memory_in_use();
  limit_fake_cuda_memory(before + (100 << 10));
  const std::string message = message_of([&] { at::mm(there, there.t()); });
  limit_fake_cuda_memory(0);
  expect_words(message, {"out of memory", "Tried to allocate 0.25 MiB", "is free"});
  EXPECT_EQ(fake_cuda_memory_in_use(), before) << "nothing is left behind";
  EXPECT_TRUE(same_bits(at::mm(there, there.t()).cpu(), at::mm(a, a.t()))) << "and work goes on";
}

// ---- randomness: keys from the default CPU generator, whatever the device

TEST(DeviceRandom, DrawsWhatTheCpuDraws) {
  if (!fake_cuda()) GTEST_SKIP();
  const aten::OperatorSwitch on;
  const auto draw = [](at::Device device) {
    at::manual_seed(77);
    const Tensor empty = at::empty({5, 301}, device);
    Tensors drawn{empty.clone().uniform_(-2, 3), empty.clone().normal_(1, 2), empty.clone().bernoulli_(0.3),
                  at::empty({4, 7}, at::TensorOptions(device).dtype(at::kByte)).bernoulli_(0.5)};
    Tensor x = at::ones({9, 100}, device).requires_grad_();
    const Tensor y = at::dropout(x, 0.4, true);
    y.sum().backward();
    drawn.insert(drawn.end(), {y.detach(), x.grad(), at::randn({3, 3}, device), at::rand({3, 3}, device),
                               at::empty({2}).uniform_()});  // as many numbers were taken
    const Tensor p = at::arange(301).to(at::kFloat).div(300).to(device),
                 weights = at::arange(30).remainder(7).to(at::kFloat).to(device);
    drawn.insert(drawn.end(),
                 {at::bernoulli(p), empty.clone().bernoulli_(p),
                  at::empty({4, 301}, at::TensorOptions(device).dtype(at::kByte)).bernoulli_(p), at::normal(p, 2.0),
                  at::normal(1.0, p), at::normal(p, p), empty.clone().exponential_(2.0), empty.clone().geometric_(0.3),
                  empty.clone().log_normal_(0.1, 0.5), at::multinomial(weights, 9, true),
                  at::multinomial(weights.view({2, 15}), 5, false), at::multinomial(weights, 1)});
    if (aten::class_of("aten::tan_", DeviceKind::cuda) == OperatorClass::certified) {
      drawn.push_back(empty.clone().cauchy_(0.5, 2.0));
    }
    drawn.push_back(at::empty({2}).uniform_());
    for (Tensor& tensor : drawn) tensor = tensor.cpu();
    return drawn;
  };
  EXPECT_TRUE(same_bits(draw(kDevice), draw(at::kCPU)));
}

TEST(DeviceRandom, TakesGeneratorsOfTheCpu) {
  if (!fake_cuda()) GTEST_SKIP();
  const aten::OperatorSwitch on;
  at::Generator own = at::detail::createCPUGenerator(5), same = at::detail::createCPUGenerator(5);
  EXPECT_TRUE(same_bits(at::empty({50}, kDevice).normal_(0, 1, own).cpu(), at::empty({50}).normal_(0, 1, same)));
}

}  // namespace
}  // namespace isobit::test
