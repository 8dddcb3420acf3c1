#include "aten/batch_statistics.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/instance_norm_native.h>
#include <torch/library.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "aten/refusal.h"

namespace isobit::aten {

struct BatchStatisticsScope::Kept {
  static constexpr std::string_view kName = "isobit batch statistics";
  static constexpr std::uint8_t kNumber = 201;
  std::mutex mutex;  // a backward may call from a device's thread
  RunningUpdates updates;
};

BatchStatisticsScope::BatchStatisticsScope() : kept_(std::make_shared<Kept>()), propagated_(kept_) {}

bool BatchStatisticsScope::active() { return Propagated<Kept>::current() != nullptr; }

void BatchStatisticsScope::add(RunningUpdate update) {
  Kept& kept = *Propagated<Kept>::current();
  const std::lock_guard lock(kept.mutex);
  kept.updates.push_back(std::move(update));
}

RunningUpdates BatchStatisticsScope::take() {
  const std::lock_guard lock(kept_->mutex);
  return std::exchange(kept_->updates, {});
}

namespace {

void apply_to(const at::Tensor& running, const at::Tensor& fresh, double momentum) {
  if (!running.defined()) return;
  running.copy_(running.mul(1.0 - momentum).add(fresh.mul(momentum)));
}

using Optional = std::optional<at::Tensor>;
bool given(const Optional& tensor) { return tensor && tensor->defined(); }

at::Tensor instance_norm(const at::Tensor& x, const Optional& weight, const Optional& bias,
                         const Optional& running_mean, const Optional& running_variance, bool use_input_statistics,
                         double momentum, double eps, bool cudnn) {
  if (use_input_statistics && (given(running_mean) || given(running_variance)) && BatchStatisticsScope::active()) {
    refuse("aten::instance_norm", "updates running statistics, which a step of several grains cannot apply",
           "make the layer with track_running_stats=False, or let the batch be one grain");
  }
  return at::native::instance_norm(x, weight, bias, running_mean, running_variance, use_input_statistics, momentum, eps,
                                   cudnn);
}

}  // namespace

void apply(const RunningUpdates& grain) {
  const at::NoGradGuard no_grad;
  for (const RunningUpdate& update : grain) {
    apply_to(update.running_mean, update.fresh_mean, update.momentum);
    apply_to(update.running_variance, update.fresh_variance, update.momentum);
  }
}

void require_equal_momenta(const std::vector<RunningUpdates>& grains) {
  std::map<const void*, double> momentum_of;
  for (const RunningUpdates& grain : grains) {
    for (const RunningUpdate& update : grain) {
      const at::Tensor& running = update.running_mean.defined() ? update.running_mean : update.running_variance;
      const auto [found, is_new] = momentum_of.emplace(running.unsafeGetTensorImpl(), update.momentum);
      if (is_new || found->second == update.momentum) continue;
      refuse("aten::native_batch_norm", "changes its momentum from grain to grain (momentum=None counts the calls)",
             "give the layer a momentum, or compute the grains in ascending order");
    }
  }
}

void register_instance_norm(torch::Library& composites) { composites.impl("instance_norm", TORCH_FN(instance_norm)); }

}  // namespace isobit::aten
