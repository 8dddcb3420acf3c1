// Random operators: one key from the generator each, the fill's bits, and nothing else to depend on.
#include "kernels/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <limits>
#include <utility>
#include <vector>

#include "operator_cases.h"

namespace isobit::test {
namespace {

std::uint64_t next_key(std::uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
}

TEST(Random, FillsFromOneKeyOfTheGenerator) {
  const std::uint64_t key = next_key(7);
  Tensor uniform = at::empty({5, 401}), normal = at::empty({5, 401}), coin = at::empty({5, 401});
  kernels::fill_uniform(key, 0, -2, 3, uniform.data_ptr<float>(), uniform.numel());
  kernels::fill_normal(key, 0, 1, 2, normal.data_ptr<float>(), normal.numel());
  kernels::fill_bernoulli(key, 0, 0.3, coin.data_ptr<float>(), coin.numel());
  const aten::OperatorSwitch on;
  const auto draw = [](auto&& function) {
    at::manual_seed(7);
    return function(at::empty({5, 401}));
  };
  EXPECT_TRUE(same_bits(draw([](Tensor t) { return t.uniform_(-2, 3); }), uniform));
  EXPECT_TRUE(same_bits(draw([](Tensor t) { return t.normal_(1, 2); }), normal));
  EXPECT_TRUE(same_bits(draw([](Tensor t) { return t.bernoulli_(0.3); }), coin));
  const Tensor bytes = draw([](Tensor t) { return at::empty(t.sizes(), at::kByte).bernoulli_(0.3); });
  EXPECT_TRUE(same_bits(bytes.to(at::kFloat), coin)) << "zeros and ones are the same in every type";
}

TEST(Random, LogicalOrderWhateverTheStridesAndThreads) {
  const aten::OperatorSwitch on;
  Tensor expected;
  for (const int threads : {1, 2, 3, 8}) {
    const kernels::ThreadCountScope scope(threads);
    for (const bool scatter : {false, true}) {
      at::manual_seed(8);
      Tensor t = scatter ? scattered(at::zeros({30, 1001})) : at::zeros({30, 1001});
      t.normal_();
      if (!expected.defined()) expected = t;
      EXPECT_TRUE(same_bits(t, expected)) << threads << " threads, scattered: " << scatter;
    }
  }
}

TEST(Random, EachCallTakesOneNumber) {
  const aten::OperatorSwitch on;
  at::manual_seed(9);
  at::empty({1000}).uniform_();
  const Tensor second = at::empty({4}).uniform_();
  at::manual_seed(9);
  at::empty({1}).uniform_();
  EXPECT_TRUE(same_bits(at::empty({4}).uniform_(), second)) << "the amount drawn before does not matter";
  at::manual_seed(9);
  EXPECT_FALSE(same_bits(at::empty({4}).uniform_(), second));
  at::Generator own = at::detail::createCPUGenerator(9);
  at::empty({3}).uniform_(0, 1, own);
  EXPECT_TRUE(same_bits(at::empty({4}).uniform_(0, 1, own), second)) << "a named generator";
}

TEST(Random, MomentsAreThoseAsked) {
  const aten::OperatorSwitch on;
  at::manual_seed(10);
  const Tensor u = at::empty({200000}).uniform_(2, 4), n = at::empty({200000}).normal_(-1, 3);
  EXPECT_NEAR(u.mean().item<float>(), 3, 0.01);
  EXPECT_GE(u.min().item<float>(), 2);
  EXPECT_LE(u.max().item<float>(), 4);
  EXPECT_NEAR(n.mean().item<float>(), -1, 0.05);
  EXPECT_NEAR(n.add(1).square().mean().item<float>(), 9, 0.2);
  EXPECT_NEAR(at::empty({200000}).bernoulli_(0.3).mean().item<float>(), 0.3, 0.01);
}

TEST(Random, DropoutIsTheCompositionOfItsMask) {
  const aten::OperatorSwitch on;
  at::manual_seed(11);
  const Tensor x = at::empty({64, 50}).normal_().requires_grad_();
  at::manual_seed(12);
  const Tensor y = at::dropout(x, 0.25, true);
  y.backward(at::ones({64, 50}));
  at::manual_seed(12);
  const Tensor mask = at::empty({64, 50}).bernoulli_(0.75);
  const float scale = 1.0f / 0.75f;
  EXPECT_TRUE(same_bits(y, x.detach().mul(mask.mul(scale))));
  EXPECT_TRUE(same_bits(x.grad(), mask.mul(scale)));
  at::manual_seed(12);
  const auto [fused, kept] = at::native_dropout(x.detach(), 0.25, true);
  EXPECT_TRUE(same_bits(fused, y));
  EXPECT_TRUE(same_bits(kept.to(at::kFloat), mask));
  EXPECT_TRUE(same_bits(at::dropout(x, 0.25, false), x));
}

std::vector<std::int64_t> numbers(const Tensor& t) {
  const Tensor flat = t.to(at::kLong).contiguous();
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

TEST(Random, IntegersFromOneKeyOfTheGenerator) {
  std::vector<std::int64_t> expected(5 * 401);
  kernels::fill_integers(next_key(7), 0, -3, 100, expected.data(), static_cast<std::int64_t>(expected.size()));
  const aten::OperatorSwitch on;
  for (const at::ScalarType type : {at::kLong, at::kInt, at::kShort, at::kChar, at::kFloat}) {
    at::manual_seed(7);
    EXPECT_EQ(numbers(at::empty({5, 401}, type).random_(-3, 97)), expected) << type;
    at::manual_seed(7);
    EXPECT_EQ(numbers(at::randint(-3, 97, {5, 401}, type)), expected) << type;
  }
  at::manual_seed(7);
  EXPECT_EQ(numbers(at::empty({401, 5}, at::kLong).t().random_(-3, 97)), expected) << "logical order";
  at::Generator own = at::detail::createCPUGenerator(7);
  EXPECT_EQ(numbers(at::randint(-3, 97, {5, 401}, own)), expected) << "a named generator";
}

TEST(Random, IntegersWithoutBoundsFillTheType) {
  const aten::OperatorSwitch on;
  at::manual_seed(7);
  EXPECT_EQ(at::empty({}, at::kLong).random_().item<std::int64_t>(), static_cast<std::int64_t>([] {
              std::int64_t whole = 0;
              kernels::fill_integers(next_key(7), 0, 0, std::uint64_t{1} << 63, &whole, 1);
              return whole;
            }()));
  at::manual_seed(8);
  for (const auto& [type, highest] :
       {std::pair(at::kBool, 1.0), {at::kByte, 255.0}, {at::kChar, 127.0}, {at::kShort, 32767.0}}) {
    const Tensor drawn = at::empty({200000}, type).random_().to(at::kLong);
    EXPECT_EQ(drawn.min().item<double>(), 0) << type;
    EXPECT_EQ(drawn.max().item<double>(), highest) << type;
  }
  const Tensor lowest =
      at::empty({1000}, at::kLong).random_(std::numeric_limits<std::int64_t>::min(), std::optional<std::int64_t>());
  EXPECT_LT(lowest.min().item<std::int64_t>(), 0);
  EXPECT_GT(lowest.max().item<std::int64_t>(), 0);
}

TEST(Random, PermutationsAreSectionSixesOrder) {
  const aten::OperatorSwitch on;
  for (const std::int64_t n : {0, 1, 2, 17, 256, 5000}) {
    std::vector<std::int64_t> expected(static_cast<std::size_t>(n));
    kernels::fill_permutation(next_key(7), 0, n, expected.data(), n);
    for (const int threads : {1, 3}) {
      const kernels::ThreadCountScope scope(threads);
      at::manual_seed(7);
      EXPECT_EQ(numbers(at::randperm(n)), expected) << n;
    }
    at::Generator own = at::detail::createCPUGenerator(7);
    EXPECT_EQ(numbers(at::randperm(n, own)), expected) << "a named generator";
    if (n <= 256) {
      at::manual_seed(7);
      EXPECT_EQ(numbers(at::randperm(n, at::kByte)), expected) << n;
    }
    at::manual_seed(8);
    if (n > 2) {
      EXPECT_NE(numbers(at::randperm(n)), expected) << n;
    }
  }
}

TEST(Random, Refuses) {
  const aten::OperatorSwitch on;
  expect_throws([&] { at::empty({3}, at::kDouble).random_(); }, "Double");
  expect_throws([&] { at::empty({3}, at::kByte).random_(0, 257); }, "does not fit");
  expect_throws([&] { at::empty({3}, at::kLong).random_(5, 5); }, "must be below");
  expect_throws([&] { at::randperm(257, at::kByte); }, "do not fit");
  expect_throws([&] { at::randperm(-1); }, "negative");
  expect_throws([&] { at::empty({3}, at::kComplexFloat).uniform_(); }, "ComplexFloat");
  expect_throws([&] { at::empty({3}).normal_(0, -1); }, "negative");
  expect_throws([&] { at::empty({3}).bernoulli_(1.5); }, "[0, 1]");
}

}  // namespace
}  // namespace isobit::test
