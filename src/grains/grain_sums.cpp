#include "grains/grain_sums.h"

#include <ATen/ops/empty.h>
#include <sstream>
#include <string>

#include "aten/device_work.h"
#include "kernels/exact_sum.h"

namespace isobit::grains {
namespace {

// The operators alone are built without {fmt}.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace

GrainSums::GrainSums(const std::vector<trace::NamedTensor>& parameters, c10::Device device, std::int64_t step,
                     std::int64_t grains)
    : device_(device), step_(step), grains_(grains) {
  for (const auto& [name, tensor] : parameters) {
    names_.push_back(name);
    sizes_.push_back(tensor.sizes().vec());
  }
}

std::vector<int> GrainSums::limbs_if_finite(const GrainResult& result) const {
  const aten::DeviceWork work(device_);
  std::vector<int> limbs;
  for (std::size_t i = 0; i < result.gradients.size(); ++i) {
    const at::Tensor& gradient = result.gradients[i];
    limbs.push_back(kernels::top_limb(gradient.const_data_ptr<float>(), gradient.numel()));
    if (limbs.back() != kernels::kNotFinite) continue;
    const std::string place = grains_ == 1 ? "" : text(", grain ", result.grain);
    throw NotFinite(
        text("the gradient of ", names_[i], " is not finite in step ", step_, place, " (loss ", result.loss, ")"),
        result.grain);
  }
  return limbs;
}

// The gradients that were kept become digits, as if they had been added when they came.
void GrainSums::accumulate() {
  if (gradients_.empty() || !accumulators_.empty()) return;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    accumulators_.emplace_back(gradients_[i].numel(), device_);
    if (!accumulators_[i].add(gradients_[i].const_data_ptr<float>())) throw std::logic_error("a gradient has changed");
  }
  gradients_.clear();
}

void GrainSums::add(GrainResult&& result) {
  if (!rest_.by_grain.emplace(result.grain, OfGrain{result.loss, result.counts, std::move(result.statistics)}).second)
    throw std::logic_error(text("grain ", result.grain, " of step ", step_, " was added twice"));
  for (const auto& [name, count] : result.increments) rest_.increments[name] += count;
  if (rest_.digest.empty()) rest_.digest.resize(result.digest.size());
  for (std::size_t i = 0; i < result.digest.size(); ++i)
    rest_.digest[i] = kernels::merge(rest_.digest[i], result.digest[i]);
  if (gradients_.empty() && accumulators_.empty()) {
    for (at::Tensor& gradient : result.gradients) gradient = gradient.to(device_).contiguous();
    limbs_ = limbs_if_finite(result);
    gradients_ = std::move(result.gradients);
  } else {
    const aten::DeviceWork work(device_);
    accumulate();
    for (std::size_t i = 0; i < accumulators_.size(); ++i) {
      const at::Tensor gradient = result.gradients[i].to(device_).contiguous();
      if (!accumulators_[i].add(gradient.const_data_ptr<float>())) (void)limbs_if_finite(result);
    }
  }
  if (grains_ > 1 && kernels::top_limb(&result.loss, 1) == kernels::kNotFinite)
    throw NotFinite(text("the loss is not finite in step ", step_, ", grain ", result.grain), result.grain);
}

void GrainSums::merge(Rest&& other) {
  for (auto& [grain, kept] : other.by_grain) {
    if (!rest_.by_grain.emplace(grain, std::move(kept)).second)
      throw std::logic_error(text("grain ", grain, " of step ", step_, " was computed twice"));
  }
  for (const auto& [name, count] : other.increments) rest_.increments[name] += count;
  if (rest_.digest.empty()) rest_.digest.resize(other.digest.size());
  for (std::size_t i = 0; i < other.digest.size(); ++i)
    rest_.digest[i] = kernels::merge(rest_.digest[i], other.digest[i]);
}

void GrainSums::merge(GrainSums&& other) {
  if (other.rest_.by_grain.empty()) return;
  const bool empty = rest_.by_grain.empty();
  merge(std::move(other.rest_));
  const aten::DeviceWork work(device_);
  if (empty) {
    for (const at::Tensor& gradient : other.gradients_) gradients_.push_back(gradient.to(device_));
    limbs_ = other.limbs_;
    for (const GradientAccumulator& sums : other.accumulators_)
      accumulators_.emplace_back(sums.size(), device_).add(sums);
    return;
  }
  accumulate();
  other.accumulate();
  for (std::size_t i = 0; i < accumulators_.size(); ++i) accumulators_[i].add(other.accumulators_[i]);
}

std::vector<int> GrainSums::top_limbs() const {
  std::vector<int> limbs;
  if (!gradients_.empty()) limbs = limbs_;
  for (const GradientAccumulator& sums : accumulators_) limbs.push_back(sums.top());
  limbs.resize(names_.size(), kernels::kNoLimb);
  return limbs;
}

void GrainSums::expect_whole() const {
  if (grains_present() != grains_)
    throw std::logic_error(text("step ", step_, " has ", grains_present(), " of its ", grains_, " grains"));
}

FinishedStep GrainSums::finish_rest() {
  expect_whole();
  FinishedStep step;
  step.digest = std::move(rest_.digest);
  step.increments = std::move(rest_.increments);
  kernels::ExactAccumulator loss(1);
  for (auto& [grain, kept] : rest_.by_grain) {
    step.counts.add(kept.counts);
    step.statistics.push_back(std::move(kept.statistics));
    step.loss_sum = kept.loss;
    if (grains_ > 1 && !loss.add(&kept.loss)) throw std::logic_error("a loss has changed");
  }
  if (grains_ > 1) loss.result(&step.loss_sum);
  return step;
}

FinishedStep GrainSums::finish(std::vector<at::Tensor> sums) {
  const aten::DeviceWork work(device_);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (kernels::top_limb(sums[i].const_data_ptr<float>(), sums[i].numel()) == kernels::kNotFinite)
      throw NotFinite(text("the gradient of ", names_[i], " is not finite in step ", step_));
  }
  FinishedStep step = finish_rest();
  step.gradients = std::move(sums);
  return step;
}

FinishedStep GrainSums::finish() {
  expect_whole();
  if (grains_ == 1) {
    FinishedStep step = finish_rest();
    step.gradients = std::move(gradients_);
    return step;
  }
  const aten::DeviceWork work(device_);
  accumulate();
  std::vector<at::Tensor> sums;
  for (std::size_t i = 0; i < accumulators_.size(); ++i) {
    sums.push_back(at::empty(sizes_[i], at::TensorOptions(device_).dtype(at::kFloat)));
    accumulators_[i].result(sums[i].mutable_data_ptr<float>());
  }
  return finish(std::move(sums));
}

}  // namespace isobit::grains
