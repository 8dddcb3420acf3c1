// The samples of the next step, put together by a thread of its own while this step computes.
//
// What a step sees is a function of the experiment, the data and the step's number, so preparing ahead changes no bit.
// A step asked for out of turn (after a restore) is prepared on the spot. One caller's thread; the object's thread
// touches no tensors, only the memory it was given, and takes no part in the kernels' pool. The digest of what the
// network will see is taken there too, from the memory that the network reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/fingerprint.h"
#include "train/dataset.h"
#include "train/experiment.h"
#include "train/schedule.h"

namespace isobit::train {

// Valid until the next call of take().
struct PreparedStep {
  std::int64_t step = 0;
  at::Tensor images;                  // [count, 1, height, width], augmented
  at::Tensor labels;                  // [count], or per pixel [count, height, width], int64
  std::vector<std::int64_t> samples;  // [count], numbers in the data set
  kernels::Fingerprint digest;        // of the list (images, labels, samples); contract, section 9
};

class BatchPreparer {
 public:
  // References must outlive the object.
  BatchPreparer(const Experiment& experiment, const Dataset& data, const Timetable& timetable, const BatchMaker& maker,
                bool digests = true);
  ~BatchPreparer();
  BatchPreparer(const BatchPreparer&) = delete;
  BatchPreparer& operator=(const BatchPreparer&) = delete;

  // The samples of `step`; begins to prepare the one after it. Rethrows what preparing threw.
  const PreparedStep& take(std::int64_t step);

 private:
  // Memory for a step, and what was written there.
  struct Slot {
    at::Tensor images, labels;
    PreparedStep prepared;
    std::exception_ptr error;
    bool digested = false;
  };

  void fill(Slot& slot, std::int64_t step, bool digest) const;
  void work();
  void wait_until_idle(std::unique_lock<std::mutex>& lock);

  const Experiment& experiment_;
  const Dataset& data_;
  const Timetable& timetable_;
  const BatchMaker& maker_;
  bool digests_;
  Slot slots_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  // Whether the network leaves a core to this thread, which then digests too; otherwise the network's threads do,
  // together.
  bool core_is_free_ = false;
  std::int64_t wanted_ = 0;  // step that the thread shall prepare; 0: none
  int target_ = 0;           // into this slot
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace isobit::train
