// The samples of the grain after this one, put together by a thread of their own while this one computes.
//
// What a grain sees is a function of the experiment, the data and the grain's place, so preparing ahead changes no bit.
// A grain that was not announced is prepared on the spot. One caller's thread; the object's thread touches no tensors,
// only the memory it was given, and takes no part in the kernels' pool. The digest of what the network will see is
// taken there too, from the memory that the network reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "grains/grain_place.h"
#include "kernels/fingerprint.h"
#include "samples/samples.h"
#include "train/batch_maker.h"
#include "train/experiment.h"

namespace isobit::train {

using grains::GrainPlace;

// Valid until the next call of take().
struct PreparedGrain {
  GrainPlace place;
  std::vector<at::Tensor> values;            // of each field, [count, shape...], augmented
  at::Tensor weights;                        // [count], or undefined
  std::vector<std::int64_t> samples;         // [count], numbers in the data set
  std::vector<kernels::Fingerprint> digest;  // BatchMaker::sums of the grain, at its place in the step
};

class GrainPreparer {
 public:
  // References must outlive the object.
  GrainPreparer(const Experiment& experiment, const samples::Samples& data, const BatchMaker& maker,
                bool digests = true);
  ~GrainPreparer();
  GrainPreparer(const GrainPreparer&) = delete;
  GrainPreparer& operator=(const GrainPreparer&) = delete;

  // The samples of `now`; begins to prepare `next`, if there is one. Rethrows what preparing threw.
  const PreparedGrain& take(const GrainPlace& now, const std::optional<GrainPlace>& next);

 private:
  // Memory for a grain, and what was written there.
  struct Slot {
    std::vector<at::Tensor> memory;
    PreparedGrain prepared;
    std::exception_ptr error;
    bool whole = false, digested = false;
  };

  void fill(Slot& slot, const GrainPlace& place, bool digest) const;
  void digest(Slot& slot) const;
  void work();

  const Experiment& experiment_;
  const samples::Samples& data_;
  const BatchMaker& maker_;
  bool digests_;
  Slot slots_[2];
  std::mutex mutex_;
  std::condition_variable changed_;
  // Whether the network leaves a core to this thread, which then digests too; otherwise the network's threads do,
  // together.
  bool core_is_free_ = false;
  std::optional<GrainPlace> wanted_;  // what the thread shall prepare
  int target_ = 0;                    // into this slot
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace isobit::train
