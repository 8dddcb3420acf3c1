#include "train/batch_preparer.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "contract/order_plan.h"
#include "kernels/threads.h"

namespace isobit::train {
namespace {

kernels::Fingerprint digest_of(const PreparedStep& batch, const float* images, const std::int64_t* labels,
                               const Dataset& data) {
  const auto count = static_cast<std::int64_t>(batch.samples.size());
  const std::int64_t shape[] = {count, 1, data.height, data.width}, target_shape[] = {count, data.height, data.width};
  kernels::ListFingerprint list;
  const auto add = [&](const char* name, const char* type, const std::int64_t* shape, int dimensions,
                       const kernels::Fingerprint& sums) {
    list.add(name, type, shape, dimensions, kernels::close_tensor(sums, type, shape, dimensions));
  };
  add("images", "float32", shape, 4, kernels::element_sums(images, 0, count * data.height * data.width));
  add("labels", "int64", target_shape, data.per_pixel ? 3 : 1,
      kernels::element_sums(labels, 0, count * data.targets()));
  add("samples", "int64", shape, 1, kernels::element_sums(batch.samples.data(), 0, count));
  return list.result();
}

}  // namespace

BatchPreparer::BatchPreparer(const Experiment& experiment, const Dataset& data, const Timetable& timetable,
                             const BatchMaker& maker, bool digests)
    : experiment_(experiment), data_(data), timetable_(timetable), maker_(maker), digests_(digests) {
  for (Slot& slot : slots_) {
    slot.images = at::empty({experiment.batch, 1, data.height, data.width}, at::kFloat);
    slot.labels = at::empty(data.per_pixel ? std::vector<std::int64_t>{experiment.batch, data.height, data.width}
                                           : std::vector<std::int64_t>{experiment.batch},
                            at::kLong);
  }
}

BatchPreparer::~BatchPreparer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void BatchPreparer::fill(Slot& slot, std::int64_t step, bool digest) const {
  const StepPlace place = timetable_.place(step);
  slot.prepared.step = 0;  // until it is whole
  const contract::OrderPlan plan(contract::OrderRule::shuffled, static_cast<std::uint64_t>(experiment_.seed),
                                 static_cast<std::uint64_t>(place.epoch), static_cast<std::uint64_t>(data_.count));
  float* image = slot.images.mutable_data_ptr<float>();
  std::int64_t* label = slot.labels.mutable_data_ptr<std::int64_t>();
  slot.prepared.samples.resize(static_cast<std::size_t>(place.count));
  for (std::int64_t i = 0; i < place.count; ++i) {
    const auto sample = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(place.first + i)));
    slot.prepared.samples[static_cast<std::size_t>(i)] = sample;
    maker_.augmented_targets(sample, place.epoch, label + i * data_.targets());
    maker_.augmented(sample, place.epoch, image + i * data_.height * data_.width);
  }
  slot.digested = digests_ && digest;
  if (slot.digested) slot.prepared.digest = digest_of(slot.prepared, image, label, data_);
  slot.prepared.step = step;
}

void BatchPreparer::work() {
  const kernels::InlineScope beside_the_network;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || wanted_ != 0; });
    if (stop_) return;
    Slot& slot = slots_[target_];
    const std::int64_t step = wanted_;
    const bool digest = core_is_free_;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(slot, step, digest);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.error = error;
    wanted_ = 0;
    changed_.notify_all();
  }
}

void BatchPreparer::wait_until_idle(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return wanted_ == 0; });
}

const PreparedStep& BatchPreparer::take(std::int64_t step) {
  std::unique_lock lock(mutex_);
  wait_until_idle(lock);
  Slot& slot = slots_[target_];
  if (slot.error) std::rethrow_exception(std::exchange(slot.error, nullptr));
  if (slot.prepared.step != step) fill(slot, step, false);
  if (digests_ && !slot.digested) {
    slot.prepared.digest = digest_of(slot.prepared, slot.images.const_data_ptr<float>(),
                                     slot.labels.const_data_ptr<std::int64_t>(), data_);
    slot.digested = true;
  }
  if (step < timetable_.steps()) {
    target_ = 1 - target_;
    slots_[target_].prepared.step = 0;
    wanted_ = step + 1;
    core_is_free_ = kernels::thread_count() < kernels::available_cpus();
    if (!thread_.joinable()) thread_ = std::thread(&BatchPreparer::work, this);
    changed_.notify_all();
  }
  const auto count = static_cast<std::int64_t>(slot.prepared.samples.size());
  slot.prepared.images = slot.images.narrow(0, 0, count);
  slot.prepared.labels = slot.labels.narrow(0, 0, count);
  return slot.prepared;
}

}  // namespace isobit::train
