// Whether several threads gain anything just now.
//
// On cores that other programs use, too, a thread that the system does not run holds up the caller with the piece that
// it has begun, for the milliseconds that the system takes: a step of many short operators is then faster by the caller
// alone. So each call's gain or loss is added up, and after a loss the caller works alone for a while, then tries
// again, after ever longer whiles as long as it loses. One thread's hiccup costs no more than it takes. Which thread
// computes what changes no bit. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>

namespace isobit::kernels {

class Contention {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  [[nodiscard]] bool works_alone(Clock::time_point now) const { return now < alone_until_; }
  // Whether it may be so, without looking at the clock.
  [[nodiscard]] bool may_work_alone() const { return alone_until_ != Clock::time_point{}; }

  // After a call: how long the caller worked, how long it then waited for the others, and which part of the work was
  // its own, 0 < part <= 1.
  void add(Clock::time_point now, Seconds worked, Seconds waited, double part) {
    const Seconds alone = worked / part;  // what it would have taken
    balance_ = std::min(balance_ + (alone - worked - waited), kMost);
    if (balance_ == kMost) pause_ = kShortest, alone_until_ = {};
    if (balance_ > -kMost) return;
    alone_until_ = now + std::chrono::duration_cast<Clock::duration>(pause_);
    pause_ = std::min(2 * pause_, kLongest);
    balance_ = Seconds(0);
  }

 private:
  static constexpr Seconds kMost{0.004};  // won or lost: as long as a system lets another thread run
  static constexpr Seconds kShortest{0.025}, kLongest{0.2};

  Seconds balance_{0}, pause_ = kShortest;
  Clock::time_point alone_until_{};
};

}  // namespace isobit::kernels
