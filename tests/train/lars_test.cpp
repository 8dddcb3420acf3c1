// LARS: its formula element by element, and that a step which cannot be taken changes nothing. Its trainings stand in
// fingerprint_test.cpp and stock_float64_test.cpp.
#include "train/lars.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "grains/grain_sums.h"
#include "train/switched_on.h"

namespace isobit::train {
namespace {

using trace::NamedTensor;

class Lars : public SwitchedOn {
 protected:
  // A matrix, a vector, one of zeros, one whose gradient is zero.
  void SetUp() override {
    const std::vector<std::vector<std::int64_t>> sizes = {{37, 19}, {37}, {5, 3}, {4, 4}};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::string name = "layer" + std::to_string(i);
      parameters_.push_back({name, i == 2 ? at::zeros(sizes[i]) : at::randn(sizes[i])});
      gradients_.push_back(i == 3 ? at::zeros(sizes[i]) : at::randn(sizes[i]));
      velocities_.push_back({name, at::randn(sizes[i])});
    }
  }

  static std::vector<std::vector<float>> values(const std::vector<NamedTensor>& tensors) {
    std::vector<std::vector<float>> all;
    for (const auto& [name, tensor] : tensors)
      all.emplace_back(tensor.const_data_ptr<float>(), tensor.const_data_ptr<float>() + tensor.numel());
    return all;
  }

  static double norm(const at::Tensor& x) { return static_cast<double>(at::linalg_vector_norm(x).item<float>()); }

  std::vector<NamedTensor> parameters_, velocities_;
  std::vector<at::Tensor> gradients_;
};

constexpr LarsOptions kOptions{0.7, 0.01, 0.9, 1e-3, false};

TEST_F(Lars, EachElementIsTheFormula) {
  for (const bool exclude : {false, true}) {
    LarsOptions o = kOptions;
    o.exclude_vectors = exclude;
    auto expected = values(parameters_), velocity = values(velocities_);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const double weight = norm(parameters_[i].tensor), gradient = norm(gradients_[i]);
      const bool plain = exclude && i == 1, whole = weight != 0 && gradient != 0;
      const double trust = whole && !plain ? o.eta * weight / (gradient + o.weight_decay * weight) : 1;
      const auto rate = static_cast<float>(o.lr * trust), momentum = static_cast<float>(o.momentum);
      const float decay = plain ? 0 : static_cast<float>(o.weight_decay), *g = gradients_[i].const_data_ptr<float>();
      for (std::size_t k = 0; k < expected[i].size(); ++k) {
        const float decayed = plain ? g[k] : std::fma(decay, expected[i][k], g[k]);
        velocity[i][k] = std::fma(rate, decayed, velocity[i][k] * momentum);
        expected[i][k] -= velocity[i][k];
      }
    }
    lars_step(o, parameters_, gradients_, velocities_);
    const auto found = values(parameters_), kept = values(velocities_);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::memcmp(found[i].data(), expected[i].data(), found[i].size() * sizeof(float)), 0) << i << exclude;
      EXPECT_EQ(std::memcmp(kept[i].data(), velocity[i].data(), kept[i].size() * sizeof(float)), 0) << i << exclude;
    }
  }
}

TEST_F(Lars, ANormBeyondTheRangeChangesNothing) {
  const auto before = values(parameters_), velocity = values(velocities_);
  gradients_.back().fill_(1e20f);  // its squares are infinite
  try {
    lars_step(kOptions, parameters_, gradients_, velocities_);
    FAIL();
  } catch (const grains::NotFinite& error) {
    EXPECT_STREQ(error.what(), "the norm of the gradient of layer3 exceeds float32's range (lars)");
  }
  EXPECT_EQ(values(parameters_), before);
  EXPECT_EQ(values(velocities_), velocity);
}

TEST(LarsAlone, NeedsTheSwitch) {
  const std::vector<NamedTensor> one = {{"w", at::ones({2, 2})}};
  const std::vector<at::Tensor> gradient = {at::ones({2, 2})};
  EXPECT_THROW(lars_step(kOptions, one, gradient, one), std::logic_error);
}

}  // namespace
}  // namespace isobit::train
