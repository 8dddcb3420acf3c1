#include "grains/grain_source.h"

#include <algorithm>

namespace isobit::grains {

LocalGrainSource::Step& LocalGrainSource::of(std::int64_t step) {
  const auto found = steps_.find(step);
  if (found != steps_.end()) return found->second;
  steps_.erase(steps_.begin(), steps_.lower_bound(step - 1));
  Step fresh;
  fresh.free = order_(step);
  std::reverse(fresh.free.begin(), fresh.free.end());
  return steps_.emplace(step, std::move(fresh)).first->second;
}

std::optional<std::int64_t> LocalGrainSource::take(Step& step) {
  if (step.stopped || step.free.empty()) return std::nullopt;
  const std::int64_t grain = step.free.back();
  step.free.pop_back();
  step.claimed.insert(grain);
  return grain;
}

std::optional<std::int64_t> LocalGrainSource::claim(std::int64_t number) {
  std::unique_lock lock(mutex_);
  Step& step = of(number);  // stays while a worker is in the step
  changed_.wait(lock, [&] { return step.stopped || !step.free.empty() || step.claimed.empty(); });
  return take(step);
}

std::optional<std::int64_t> LocalGrainSource::claim_ahead(std::int64_t number) {
  const std::lock_guard lock(mutex_);
  return take(of(number));
}

void LocalGrainSource::done(std::int64_t step, std::int64_t grain) {
  {
    const std::lock_guard lock(mutex_);
    of(step).claimed.erase(grain);
  }
  changed_.notify_all();
}

void LocalGrainSource::give_back(std::int64_t number, std::int64_t grain) {
  {
    const std::lock_guard lock(mutex_);
    Step& step = of(number);
    if (step.claimed.erase(grain) != 0) step.free.push_back(grain);
  }
  changed_.notify_all();
}

void LocalGrainSource::stop(std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    of(step).stopped = true;
  }
  changed_.notify_all();
}

void LocalGrainSource::reset() {
  const std::lock_guard lock(mutex_);
  steps_.clear();
}

}  // namespace isobit::grains
