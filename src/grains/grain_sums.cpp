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
    if (grains > 1) accumulators_.emplace_back(tensor.numel(), device);
  }
}

void GrainSums::expect_finite(const GrainResult& result) const {
  const aten::DeviceWork work(device_);
  for (std::size_t i = 0; i < result.gradients.size(); ++i) {
    const at::Tensor& gradient = result.gradients[i];
    if (kernels::top_limb(gradient.const_data_ptr<float>(), gradient.numel()) != kernels::kNotFinite) continue;
    throw NotFinite(text("the gradient of ", names_[i], " is not finite in step ", step_, " (loss ", result.loss, ")"));
  }
}

void GrainSums::add(GrainResult&& result) {
  if (!by_grain_.emplace(result.grain, OfGrain{result.counts, std::move(result.statistics)}).second)
    throw std::logic_error(text("grain ", result.grain, " of step ", step_, " was added twice"));
  for (const auto& [name, count] : result.increments) increments_[name] += count;
  if (digest_.empty()) digest_.resize(result.digest.size());
  for (std::size_t i = 0; i < result.digest.size(); ++i) digest_[i] = kernels::merge(digest_[i], result.digest[i]);
  if (grains_ == 1) {
    expect_finite(result);
    gradients_ = std::move(result.gradients);
    only_loss_ = result.loss;
    return;
  }
  const aten::DeviceWork work(device_);
  for (std::size_t i = 0; i < accumulators_.size(); ++i) {
    const at::Tensor gradient = result.gradients[i].to(device_).contiguous();
    if (accumulators_[i].add(gradient.const_data_ptr<float>())) continue;
    throw NotFinite(text("the gradient of ", names_[i], " is not finite in step ", step_, ", grain ", result.grain,
                         " (loss ", result.loss, ")"));
  }
  if (!loss_.add(&result.loss))
    throw NotFinite(text("the loss is not finite in step ", step_, ", grain ", result.grain));
}

void GrainSums::merge(GrainSums&& other) {
  if (other.by_grain_.empty()) return;
  for (auto& [grain, kept] : other.by_grain_) {
    if (!by_grain_.emplace(grain, std::move(kept)).second)
      throw std::logic_error(text("grain ", grain, " of step ", step_, " was computed twice"));
  }
  for (const auto& [name, count] : other.increments_) increments_[name] += count;
  if (digest_.empty()) digest_.resize(other.digest_.size());
  for (std::size_t i = 0; i < other.digest_.size(); ++i) digest_[i] = kernels::merge(digest_[i], other.digest_[i]);
  if (grains_ == 1) {
    for (const at::Tensor& gradient : other.gradients_) gradients_.push_back(gradient.to(device_));
    only_loss_ = other.only_loss_;
    return;
  }
  const aten::DeviceWork work(device_);
  for (std::size_t i = 0; i < accumulators_.size(); ++i) accumulators_[i].add(other.accumulators_[i]);
  loss_.add(other.loss_);
}

FinishedStep GrainSums::finish() {
  if (grains_present() != grains_)
    throw std::logic_error(text("step ", step_, " has ", grains_present(), " of its ", grains_, " grains"));
  FinishedStep step;
  step.digest = std::move(digest_);
  step.increments = std::move(increments_);
  for (auto& [grain, kept] : by_grain_) {
    step.counts.add(kept.counts);
    step.statistics.push_back(std::move(kept.statistics));
  }
  if (grains_ == 1) {
    step.gradients = std::move(gradients_);
    step.loss_sum = only_loss_;
    return step;
  }
  const aten::DeviceWork work(device_);
  for (std::size_t i = 0; i < accumulators_.size(); ++i) {
    const at::Tensor sum = at::empty(sizes_[i], at::TensorOptions(device_).dtype(at::kFloat));
    accumulators_[i].result(sum.mutable_data_ptr<float>());
    if (kernels::top_limb(sum.const_data_ptr<float>(), sum.numel()) == kernels::kNotFinite) {
      throw NotFinite(text("the gradient of ", names_[i], " is not finite in step ", step_));
    }
    step.gradients.push_back(sum);
  }
  loss_.result(&step.loss_sum);
  return step;
}

}  // namespace isobit::grains
