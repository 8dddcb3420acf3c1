// Random operators draw from the thread's scope where they name no generator: the numbers of manual_seed.
#include "aten/generator_scope.h"

#include <ATen/CPUGeneratorImpl.h>

#include <functional>
#include <thread>
#include <utility>

#include "operator_cases.h"

namespace isobit::test {
namespace {

using aten::GeneratorScope;

// One operator of every kind that draws.
Tensor draw(const std::string& kind, at::Device device = at::kCPU) {
  const auto options = at::TensorOptions(device).dtype(at::kFloat);
  const Tensor half = at::full({40}, 0.5, options);
  if (kind == "uniform_") return at::empty({40}, options).uniform_();
  if (kind == "randn") return at::randn({40}, options);
  if (kind == "randint") return at::randint(1000, {40}, options.dtype(at::kLong));
  if (kind == "randperm") return at::randperm(40, options.dtype(at::kLong));
  if (kind == "bernoulli") return at::bernoulli(half);
  if (kind == "dropout") return at::dropout(half, 0.3, true);
  if (kind == "native_dropout") return std::get<0>(at::native_dropout(half, 0.3, true));
  if (kind == "feature_dropout") return at::feature_dropout(at::ones({5, 8, 2, 2}, options), 0.5, true);
  if (kind == "rrelu") return at::rrelu(half.neg(), 0.1, 0.4, true);
  if (kind == "multinomial") return at::multinomial(half, 10);
  if (kind == "exponential_") return at::empty({40}, options).exponential_();
  if (kind == "poisson") return at::poisson(half.mul(9));
  if (kind == "_standard_gamma") return at::_standard_gamma(half);
  if (kind == "binomial") return at::binomial(half.mul(20), half);
  if (kind == "lstm") {
    const Tensor w = at::full({8, 2}, 0.3, options), x = at::ones({3, 2, 2}, options),
                 zero = at::zeros({2, 2, 2}, options);
    return std::get<0>(at::lstm(x, {zero, zero}, {w, w, w, w}, false, 2, 0.5, true, false, false));
  }
  ADD_FAILURE() << kind;
  return {};
}
constexpr const char* kKinds[] = {"uniform_",     "randn",          "randint",         "randperm", "bernoulli",
                                  "dropout",      "native_dropout", "feature_dropout", "rrelu",    "multinomial",
                                  "exponential_", "poisson",        "_standard_gamma", "binomial", "lstm"};

std::vector<at::Device> devices() {
  std::vector<at::Device> all{at::kCPU};
#ifdef ISOBIT_FAKE_CUDA
  if (fake_cuda()) all.emplace_back(at::kCUDA, 0);
#endif
  return all;
}

TEST(GeneratorScope, GivesTheNumbersOfManualSeedAndLeavesTheDefaultGeneratorAlone) {
  for (const at::Device device : devices()) {
    const aten::OperatorSwitch on;
    for (const char* kind : kKinds) {
      SCOPED_TRACE(std::string(kind) + " on " + device.str());
      at::manual_seed(77);
      const Tensor expected = draw(kind, device).cpu();
      at::manual_seed(5);
      const Tensor next = at::randn({3});
      at::manual_seed(5);
      {
        GeneratorScope scope(77);
        EXPECT_TRUE(same_bits(draw(kind, device).cpu(), expected));
        EXPECT_FALSE(same_bits(draw(kind, device).cpu(), expected)) << "the next ones";
        scope.seed(77);
        EXPECT_TRUE(same_bits(draw(kind, device).cpu(), expected));
      }
      EXPECT_TRUE(same_bits(at::randn({3}), next));
    }
  }
}

TEST(GeneratorScope, AnOperatorThatNamesAGeneratorDrawsFromIt) {
  const aten::OperatorSwitch on;
  at::Generator named = at::detail::createCPUGenerator(3), again = at::detail::createCPUGenerator(3);
  const Tensor expected = at::randn({10}, named);
  const GeneratorScope scope(77);
  EXPECT_TRUE(same_bits(at::randn({10}, again), expected));
}

TEST(GeneratorScope, ThreadsDrawSideBySide) {
  const aten::OperatorSwitch on;
  const auto grain = [](std::uint64_t seed) {
    GeneratorScope scope(seed);
    Tensor sum = at::zeros({100});
    for (int i = 0; i < 200; ++i) sum = at::dropout(sum.add(1), 0.4, true).add(at::randn({100}));
    return sum;
  };
  const Tensor first = grain(1), second = grain(2);
  Tensor beside[2];
  std::thread a([&] { beside[0] = grain(1); }), b([&] { beside[1] = grain(2); });
  a.join(), b.join();
  EXPECT_TRUE(same_bits(beside[0], first) && same_bits(beside[1], second));
  EXPECT_FALSE(same_bits(first, second));
}

TEST(GeneratorScope, ScopesNest) {
  const aten::OperatorSwitch on;
  GeneratorScope outer(1);
  const Tensor first = at::randn({3});
  const Tensor second = at::randn({3});
  outer.seed(1);
  at::randn({3});
  {
    const GeneratorScope inner(1);
    EXPECT_TRUE(same_bits(at::randn({3}), first));
  }
  EXPECT_TRUE(same_bits(at::randn({3}), second));
}

}  // namespace
}  // namespace isobit::test
