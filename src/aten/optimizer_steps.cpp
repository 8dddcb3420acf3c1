#include "aten/optimizer_steps.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "aten/plain_calls.h"

namespace isobit::aten {
namespace {

using at::Tensor;

// What an in-place operator takes without a graph.
bool is_plain_in_place(const Tensor& t) {
  return is_plain_float(t) && !(c10::GradMode::is_enabled() && t.requires_grad());
}

// The same elements at the same places, in memory that no other of them has.
bool are_alike(std::initializer_list<const Tensor*> tensors) {
  const Tensor& first = **tensors.begin();
  if (!first.is_non_overlapping_and_dense()) return false;
  std::array<std::pair<const char*, const char*>, 4> ranges;
  std::size_t known = 0;
  for (const Tensor* t : tensors) {
    if (t->sizes() != first.sizes() || t->strides() != first.strides()) return false;
    const char* begin = static_cast<const char*>(t->const_data_ptr());
    const char* end = begin + t->nbytes();
    for (std::size_t i = 0; i < known; ++i)
      if (begin < ranges[i].second && ranges[i].first < end) return false;
    ranges[known++] = {begin, end};
  }
  return true;
}

// Every coefficient is below binary32's largest number: 1 - lr * weight_decay, and lr / (1 - beta^step), beta < 1.
bool are_moderate(std::initializer_list<double> scalars) {
  return std::all_of(scalars.begin(), scalars.end(), [](double x) { return std::abs(x) <= 1e15; });
}
bool is_rate_of_decay(double beta) { return beta >= 0 && beta < 1; }

// Of its value after this step: a whole number, as the powers want.
bool counts(const Tensor& step) {
  if (!is_plain_in_place(step) || step.numel() != 1) return false;
  const float next = *step.const_data_ptr<float>() + 1.0f;
  return next >= 1 && next < 0x1p31f && next == std::floor(next);
}

bool overlaps(const Tensor& step, const Tensor& t) {
  const char *one = static_cast<const char*>(step.const_data_ptr()),
             *begin = static_cast<const char*>(t.const_data_ptr());
  return one < begin + t.nbytes() && begin < one + sizeof(float);
}

// Whether no two share memory.
bool are_apart(const std::vector<const Tensor*>& tensors) {
  std::vector<std::pair<const char*, const char*>> ranges;
  for (const Tensor* t : tensors) {
    const char* begin = static_cast<const char*>(t->const_data_ptr());
    if (t->nbytes() > 0) ranges.emplace_back(begin, begin + t->nbytes());
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return false;
  return true;
}

// What an in-place operator does beside its work.
float* written(const Tensor& t) {
  t.unsafeGetTensorImpl()->bump_version();
  return t.mutable_data_ptr<float>();
}

}  // namespace

bool adam_in_one_pass(std::span<const AdamTensors> all, const kernels::AdamOptions& o, Order order) {
  if (!unobserved() || !are_moderate({o.lr, o.eps, o.weight_decay}) || !is_rate_of_decay(o.beta1) ||
      !is_rate_of_decay(o.beta2))
    return false;
  for (const AdamTensors& t : all) {
    if (!is_plain_in_place(t.parameter) || !is_plain_in_place(t.gradient) || !is_plain_in_place(t.average) ||
        !is_plain_in_place(t.square))
      return false;
    if (!are_alike({&t.parameter, &t.gradient, &t.average, &t.square}) || !counts(t.step)) return false;
    for (const Tensor* other : {&t.parameter, &t.gradient, &t.average, &t.square})
      if (overlaps(t.step, *other)) return false;
  }
  if (order == Order::all_at_once) {
    std::vector<const Tensor*> tensors;
    for (const AdamTensors& t : all)
      tensors.insert(tensors.end(), {&t.parameter, &t.gradient, &t.average, &t.square, &t.step});
    if (!are_apart(tensors)) return false;
  }
  for (const AdamTensors& t : all) {
    float* const steps = written(t.step);
    *steps += 1.0f;
    float *const parameter = written(t.parameter), *const average = written(t.average),
                 *const square = written(t.square);
    kernels::adam_step(o, static_cast<std::int64_t>(*steps), parameter, t.gradient.const_data_ptr<float>(), average,
                       square, t.parameter.numel());
  }
  return true;
}

bool sgd_in_one_pass(std::span<const SgdTensors> all, const kernels::SgdOptions& o, Order order) {
  if (!unobserved() || !are_moderate({o.lr, o.momentum, o.dampening, o.weight_decay})) return false;
  for (const SgdTensors& t : all) {
    if (!is_plain_in_place(t.parameter) || !is_plain_in_place(t.gradient)) return false;
    if (o.momentum == 0 ? !are_alike({&t.parameter, &t.gradient})
                        : !is_plain_in_place(t.buffer) || !are_alike({&t.parameter, &t.gradient, &t.buffer}))
      return false;
  }
  if (order == Order::all_at_once) {
    std::vector<const Tensor*> tensors;
    for (const SgdTensors& t : all) {
      tensors.insert(tensors.end(), {&t.parameter, &t.gradient});
      if (o.momentum != 0) tensors.push_back(&t.buffer);
    }
    if (!are_apart(tensors)) return false;
  }
  for (const SgdTensors& t : all) {
    float* const buffer = o.momentum == 0 ? nullptr : written(t.buffer);
    kernels::sgd_step(o, false, written(t.parameter), t.gradient.const_data_ptr<float>(), buffer, t.parameter.numel());
  }
  return true;
}

}  // namespace isobit::aten
