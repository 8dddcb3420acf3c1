#include "extension/grains.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "aten/batch_statistics.h"
#include "aten/device_work.h"
#include "contract/order_plan.h"
#include "contract/philox.h"
#include "extension/reported.h"
#include "extension/sum_handle.h"
#include "grains/exact_slice.h"
#include "grains/gradient_accumulator.h"
#include "kernels/exact_sum.h"

namespace {

using isobit::extension::reported;
using isobit::extension::require_float;
using isobit::extension::tensor_of;

// An undefined one for null.
at::Tensor given_or_none(void* tensor) { return tensor == nullptr ? at::Tensor() : tensor_of(tensor); }

bool is_finite(const at::Tensor& tensor) {
  const isobit::aten::DeviceWork work(tensor.device());
  return isobit::kernels::top_limb(tensor.const_data_ptr<float>(), tensor.numel()) != isobit::kernels::kNotFinite;
}

}  // namespace

struct isobit_grain {
  std::optional<isobit::aten::BatchStatisticsScope> scope;
  std::thread::id thread = std::this_thread::get_id();
  isobit::aten::RunningUpdates updates;
};

std::uint64_t isobit_derive_key(std::uint64_t seed, std::uint32_t purpose, std::uint64_t a, std::uint32_t b) {
  return isobit::contract::derive_key(seed, purpose, a, b);
}

const char* isobit_order(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, int shuffled, std::int64_t first,
                         std::int64_t count, std::int64_t* samples) {
  return reported([=] {
    if (first < 0 || count < 0 || first + count > n) throw std::invalid_argument("positions beyond the plan's samples");
    using isobit::contract::OrderRule;
    const isobit::contract::OrderPlan plan(shuffled != 0 ? OrderRule::shuffled : OrderRule::sequential, seed, epoch,
                                           static_cast<std::uint64_t>(n));
    for (std::int64_t i = 0; i < count; ++i)
      samples[i] = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(first + i)));
  });
}

const char* isobit_sum_create(void* like, isobit_sum** sum) {
  return reported([=] {
    const at::Tensor tensor = tensor_of(like);
    require_float(tensor);
    *sum = std::make_unique<isobit_sum>(tensor).release();
  });
}

const char* isobit_sum_add(isobit_sum* sum, void* tensor, int* finite) {
  return reported([=] {
    const at::NoGradGuard no_grad;
    const at::Tensor given = tensor_of(tensor);
    sum->expect(given);
    const at::Tensor values = given.detach().resolve_neg().contiguous();
    const isobit::aten::DeviceWork work(sum->device);
    *finite = sum->digits.add(values.const_data_ptr<float>()) ? 1 : 0;
  });
}

const char* isobit_sum_merge(isobit_sum* sum, const isobit_sum* other) {
  return reported([=] {
    if (sum->sizes != other->sizes || sum->device != other->device)
      throw std::invalid_argument("exact sum of tensors of different shapes or devices");
    sum->digits.add(other->digits);
  });
}

const char* isobit_sum_result(const isobit_sum* sum, void* tensor, int* finite) {
  return reported([=] {
    const at::Tensor result = tensor_of(tensor);
    sum->expect(result);
    if (!result.is_contiguous()) throw std::invalid_argument("the sum is written to a contiguous tensor");
    {
      const isobit::aten::DeviceWork work(sum->device);
      sum->digits.result(result.mutable_data_ptr<float>());
    }
    *finite = is_finite(result) ? 1 : 0;
  });
}

void isobit_sum_clear(isobit_sum* sum) { sum->digits.clear(); }

void isobit_sum_free(isobit_sum* sum) { delete sum; }

const char* isobit_is_finite(void* tensor, int* finite) {
  return reported([=] {
    const at::NoGradGuard no_grad;
    const at::Tensor given = tensor_of(tensor);
    require_float(given);
    *finite = is_finite(given.detach().contiguous()) ? 1 : 0;
  });
}

const char* isobit_top_limbs(void* tensor, const std::int64_t* lengths, std::int64_t count, int* limbs) {
  return reported([=] {
    const auto size = static_cast<std::size_t>(count);
    isobit::grains::top_limbs(tensor_of(tensor), {lengths, size}, {limbs, size});
  });
}

const char* isobit_sum_rows(void* rows, const std::int64_t* lengths, const int* limbs, std::int64_t count, void* out,
                            int* fits) {
  return reported([=] {
    const at::NoGradGuard no_grad;
    std::vector<isobit::grains::Segment> segments;
    for (std::int64_t i = 0; i < count; ++i) segments.push_back({lengths[i], limbs[i]});
    *fits = isobit::grains::sum_rows(tensor_of(rows), segments, tensor_of(out)) ? 1 : 0;
  });
}

int isobit_sum_top(const isobit_sum* sum) { return sum->digits.top(); }

const char* isobit_grain_begin(isobit_grain** grain) {
  return reported([=] {
    auto begun = std::make_unique<isobit_grain>();
    begun->scope.emplace();
    *grain = begun.release();
  });
}

const char* isobit_grain_end(isobit_grain* grain) {
  return reported([=] {
    if (!grain->scope) return;
    if (grain->thread != std::this_thread::get_id())
      throw std::logic_error("a grain ends on the thread that it began on");
    grain->updates = grain->scope->take();
    grain->scope.reset();
  });
}

const char* isobit_grains_apply(isobit_grain* const* grains, std::int64_t count, int ascending) {
  return reported([=] {
    std::vector<isobit::aten::RunningUpdates> updates;
    for (std::int64_t i = 0; i < count; ++i) updates.push_back(grains[i]->updates);
    if (ascending == 0) isobit::aten::require_equal_momenta(updates);
    for (const isobit::aten::RunningUpdates& grain : updates) isobit::aten::apply(grain);
  });
}

void isobit_grain_free(isobit_grain* grain) {
  // Another thread's scope cannot be ended here: that thread keeps it, rather than that this one takes another's.
  if (grain->scope && grain->thread != std::this_thread::get_id()) return;
  delete grain;
}

std::int64_t isobit_grain_calls(const isobit_grain* grain) { return static_cast<std::int64_t>(grain->updates.size()); }

const char* isobit_grain_call(const isobit_grain* grain, std::int64_t call, void** mean, void** variance,
                              double* momentum) {
  return reported([=] {
    const isobit::aten::RunningUpdate& update = grain->updates.at(static_cast<std::size_t>(call));
    const auto pointer = [](const at::Tensor& x) -> void* { return x.defined() ? x.unsafeGetTensorImpl() : nullptr; };
    *mean = pointer(update.running_mean);
    *variance = pointer(update.running_variance);
    *momentum = update.momentum;
  });
}

const char* isobit_grain_fresh(const isobit_grain* grain, std::int64_t call, void* mean, void* variance) {
  return reported([=] {
    const at::NoGradGuard no_grad;
    const isobit::aten::RunningUpdate& update = grain->updates.at(static_cast<std::size_t>(call));
    const auto copy = [](void* to, const at::Tensor& from) {
      if (to == nullptr) return;
      const at::Tensor target = tensor_of(to);
      if (!from.defined() || target.scalar_type() != from.scalar_type() || target.numel() != from.numel())
        throw std::invalid_argument("fresh statistics are like the running ones");
      target.copy_(from.reshape(target.sizes()));
    };
    copy(mean, update.fresh_mean);
    copy(variance, update.fresh_variance);
  });
}

const char* isobit_grain_received(isobit_grain** grain) {
  return reported([=] { *grain = std::make_unique<isobit_grain>().release(); });
}

const char* isobit_grain_add(isobit_grain* grain, void* running_mean, void* running_variance, double momentum,
                             void* fresh_mean, void* fresh_variance) {
  return reported([=] {
    isobit::aten::RunningUpdate update;
    update.running_mean = given_or_none(running_mean);
    update.running_variance = given_or_none(running_variance);
    update.momentum = momentum;
    update.fresh_mean = given_or_none(fresh_mean);
    update.fresh_variance = given_or_none(fresh_variance);
    grain->updates.push_back(std::move(update));
  });
}
