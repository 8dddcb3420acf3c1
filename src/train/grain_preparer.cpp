#include "train/grain_preparer.h"

#include <utility>

#include "contract/order_plan.h"
#include "kernels/threads.h"

namespace isobit::train {

GrainPreparer::GrainPreparer(const Experiment& experiment, const samples::Samples& data, const BatchMaker& maker,
                             bool digests)
    : experiment_(experiment), data_(data), maker_(maker), digests_(digests) {
  for (Slot& slot : slots_) {
    for (std::size_t i = 0; i < maker.fields(); ++i)
      slot.memory.push_back(maker.memory_for(i, std::min(experiment.grain_size(), data.count())));
  }
}

GrainPreparer::~GrainPreparer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GrainPreparer::digest(Slot& slot) const {
  PreparedGrain& grain = slot.prepared;
  grain.digest = maker_.sums(slot.memory, grain.weights, grain.samples, grain.place.in_step);
  slot.digested = true;
}

void GrainPreparer::fill(Slot& slot, const GrainPlace& place, bool with_digest) const {
  slot.whole = slot.digested = false;
  PreparedGrain& grain = slot.prepared;
  grain.place = place;
  const contract::OrderPlan plan(contract::OrderRule::shuffled, experiment_.order_seed(),
                                 static_cast<std::uint64_t>(place.epoch), static_cast<std::uint64_t>(data_.count()));
  grain.samples.resize(static_cast<std::size_t>(place.count));
  for (std::int64_t i = 0; i < place.count; ++i)
    grain.samples[static_cast<std::size_t>(i)] =
        static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(place.first + i)));
  for (std::size_t i = 0; i < maker_.fields(); ++i) maker_.fill(i, grain.samples, place.epoch, slot.memory[i]);
  grain.weights = maker_.weights(grain.samples);
  grain.digest.clear();
  if (digests_ && with_digest) digest(slot);
  slot.whole = true;
}

void GrainPreparer::work() {
  const kernels::InlineScope beside_the_network;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || wanted_; });
    if (stop_) return;
    Slot& slot = slots_[target_];
    const GrainPlace place = *wanted_;
    const bool with_digest = core_is_free_;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(slot, place, with_digest);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.error = error;
    wanted_.reset();
    changed_.notify_all();
  }
}

const PreparedGrain& GrainPreparer::take(const GrainPlace& now, const std::optional<GrainPlace>& next) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !wanted_; });
  Slot& slot = slots_[target_];
  if (slot.error && slot.prepared.place == now) std::rethrow_exception(std::exchange(slot.error, nullptr));
  slot.error = nullptr;
  if (!slot.whole || slot.prepared.place != now) fill(slot, now, false);
  if (digests_ && !slot.digested) digest(slot);
  if (next) {
    target_ = 1 - target_;
    wanted_ = next;
    core_is_free_ = kernels::thread_count() < kernels::available_cpus();
    if (!thread_.joinable()) thread_ = std::thread(&GrainPreparer::work, this);
    changed_.notify_all();
  }
  slot.prepared.values.clear();
  for (const at::Tensor& memory : slot.memory) slot.prepared.values.push_back(memory.narrow(0, 0, now.count));
  return slot.prepared;
}

}  // namespace isobit::train
