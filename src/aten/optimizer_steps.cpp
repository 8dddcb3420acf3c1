#include "aten/optimizer_steps.h"

#include <c10/core/GradMode.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "aten/adam_batch.h"
#include "aten/device_work.h"
#include "aten/memory_overlap.h"
#include "aten/observed_calls.h"
#include "aten/plain_memory.h"

namespace isobit::aten {
namespace {

using at::Tensor;

// Plain, of binary32, no inference tensor; no graph is recorded of what is written to it.
bool is_plain_float(const Tensor& t) {
  return t.defined() && is_plain_memory(t) && t.scalar_type() == at::kFloat && !t.is_inference() &&
         !(c10::GradMode::is_enabled() && t.requires_grad());
}

// The same elements at the same places.
bool are_alike(c10::Device device, std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  return first.defined() && first.is_non_overlapping_and_dense() &&
         std::all_of(tensors.begin(), tensors.end(), [&](const Tensor* t) {
           return is_plain_float(*t) && t->device() == device && t->sizes() == first.sizes() &&
                  t->strides() == first.strides();
         });
}

std::array<const Tensor*, 5> all_of(const AdamTensors& t) {
  return {&t.parameter, &t.gradient, &t.average, &t.square, &t.step};
}
std::array<const Tensor*, 3> all_of(const SgdTensors& t) { return {&t.parameter, &t.gradient, &t.buffer}; }

// Whether no two tensors of a parameter share memory; of any parameters, where all are taken at once: by the form, or
// by the device.
template <class Tensors>
bool have_memory_of_their_own(std::span<const Tensors> all, Order order) {
  const bool on_host = all.empty() || all[0].parameter.is_cpu();
  const std::size_t together = order == Order::one_by_one && on_host ? 1 : all.size();
  c10::SmallVector<const Tensor*, 16> tensors;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const Tensor* t : all_of(all[i])) tensors.push_back(t);
    if ((i + 1) % together != 0) continue;
    if (!lie_apart({tensors.data(), tensors.size()})) return false;
    tensors.clear();
  }
  return true;
}

template <class Tensors>
c10::Device device_of(std::span<const Tensors> all) {
  const Tensor& first = all[0].parameter;
  return first.defined() ? first.device() : c10::Device(c10::kCPU);
}

// Every coefficient is below binary32's largest number: 1 - lr * weight_decay, and lr / (1 - beta^step), beta < 1.
bool are_moderate(std::initializer_list<double> scalars) {
  return std::all_of(scalars.begin(), scalars.end(), [](double x) { return std::abs(x) <= 1e15; });
}
bool is_rate_of_decay(double beta) { return beta >= 0 && beta < 1; }

// Of its value after this step: a whole number, as the powers want.
bool counts(const Tensor& step) {
  if (!is_plain_float(step) || !step.is_cpu() || step.numel() != 1) return false;
  const float next = *step.const_data_ptr<float>() + 1.0f;
  return next >= 1 && next < 0x1p31f && next == std::floor(next);
}

// What an in-place operator does beside its work.
float* written(const Tensor& t) {
  t.unsafeGetTensorImpl()->bump_version();
  return t.mutable_data_ptr<float>();
}

}  // namespace

bool adam_in_one_pass(std::span<const AdamTensors> all, const kernels::AdamOptions& o, Order order) {
  if (!calls_are_unobserved() || !are_moderate({o.lr, o.eps, o.weight_decay}) || !is_rate_of_decay(o.beta1) ||
      !is_rate_of_decay(o.beta2))
    return false;
  if (all.empty()) return true;
  const c10::Device device = device_of(all);
  for (const AdamTensors& t : all)
    if (!are_alike(device, {&t.parameter, &t.gradient, &t.average, &t.square}) || !counts(t.step)) return false;
  if (!have_memory_of_their_own(all, order)) return false;
  const DeviceWork work(device);
  AdamBatch batch(o);
  for (const AdamTensors& t : all) {
    float* const steps = written(t.step);
    *steps += 1.0f;
    batch.add(static_cast<std::int64_t>(*steps), {written(t.parameter), t.gradient.const_data_ptr<float>(),
                                                  written(t.average), written(t.square), t.parameter.numel()});
  }
  batch.run();
  return true;
}

bool sgd_in_one_pass(std::span<const SgdTensors> all, const kernels::SgdOptions& o, Order order) {
  if (!calls_are_unobserved() || !are_moderate({o.lr, o.momentum, o.dampening, o.weight_decay})) return false;
  if (all.empty()) return true;
  const c10::Device device = device_of(all);
  for (const SgdTensors& t : all)
    if (!are_alike(device, {&t.parameter, &t.gradient, o.momentum == 0 ? &t.parameter : &t.buffer})) return false;
  if (!have_memory_of_their_own(all, order)) return false;
  const DeviceWork work(device);
  c10::SmallVector<kernels::SgdArrays, 8> arrays;
  for (const SgdTensors& t : all) {
    float* const buffer = o.momentum == 0 ? nullptr : written(t.buffer);
    arrays.push_back({written(t.parameter), t.gradient.const_data_ptr<float>(), buffer, t.parameter.numel()});
  }
  kernels::sgd_steps(o, false, arrays.data(), static_cast<std::int64_t>(arrays.size()));
  return true;
}

}  // namespace isobit::aten
