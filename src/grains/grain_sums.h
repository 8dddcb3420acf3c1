// What the grains of a step leave behind, and the step that they make together (contract, section 7).
//
// Each worker adds the grains that it computed to a GrainSums of its own; merged in any order they are the same, and
// finish() gives the step once every grain is there exactly once. Of a step of one grain the gradients and the loss are
// kept as they are; of several the gradients' and losses' digits are summed, and the rest is kept by grain.
// A caller with CUDA tensors needs nothing around the calls: the accumulators' device is asked for within. One thread.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "aten/batch_statistics.h"
#include "grains/counts.h"
#include "grains/gradient_accumulator.h"
#include "kernels/fingerprint.h"
#include "trace/tensor_fingerprint.h"

namespace isobit::grains {

// A gradient or loss became infinite or NaN, in this grain of the step.
class NotFinite : public std::runtime_error {
 public:
  explicit NotFinite(const std::string& what, std::int64_t grain = 0) : std::runtime_error(what), grain_(grain) {}
  [[nodiscard]] std::int64_t grain() const { return grain_; }

 private:
  std::int64_t grain_;
};

struct GrainResult {
  std::int64_t grain = 0;
  float loss = 0;  // mean if the step has one grain and its task takes means, else sum
  Counts counts;
  std::vector<at::Tensor> gradients;               // in the order of the parameters
  aten::RunningUpdates statistics;                 // of the running tensors to be updated
  std::map<std::string, std::int64_t> increments;  // of buffers that count
  std::vector<kernels::Fingerprint> digest;  // of the batch's fields: element sums at the grain's place in the step
};

struct FinishedStep {
  float loss_sum = 0;  // rounded once; of one grain, its own loss
  Counts counts;
  std::vector<at::Tensor> gradients;
  std::vector<aten::RunningUpdates> statistics;  // by grain
  std::map<std::string, std::int64_t> increments;
  std::vector<kernels::Fingerprint> digest;
};

class GrainSums {
 public:
  // `parameters` name and size what is summed; the digits lie on `device`.
  GrainSums(const std::vector<trace::NamedTensor>& parameters, c10::Device device, std::int64_t step,
            std::int64_t grains);

  // Throws NotFinite naming parameter, step and grain; the object is then of no use.
  void add(GrainResult&& result);
  // Another worker's, of the same step. std::logic_error where both have the same grain.
  void merge(GrainSums&& other);
  // Precondition: every grain is there (std::logic_error).
  [[nodiscard]] FinishedStep finish();

  [[nodiscard]] std::int64_t grains_present() const { return static_cast<std::int64_t>(rest_.by_grain.size()); }

  // ---- for those who merge the sums of several processes (src/scale)

  // All that the grains left but gradients.
  struct OfGrain {
    float loss = 0;
    Counts counts;
    aten::RunningUpdates statistics;
  };
  struct Rest {
    std::map<std::int64_t, OfGrain> by_grain;
    std::map<std::string, std::int64_t> increments;
    std::vector<kernels::Fingerprint> digest;
  };
  [[nodiscard]] const Rest& rest() const { return rest_; }
  // As merge() does. std::logic_error where both have the same grain.
  void merge(Rest&& other);
  // The gradients of one grain as it gave them, or the sums of digits of several; of no grain neither.
  [[nodiscard]] const std::vector<at::Tensor>& single() const { return gradients_; }
  [[nodiscard]] const std::vector<GradientAccumulator>& digits() const { return accumulators_; }
  // By parameter: the top limb of what is there, kernels::kNoLimb where all is zero.
  [[nodiscard]] std::vector<int> top_limbs() const;
  // The step whose gradients were summed elsewhere, of all grains' rest. NotFinite where a sum exceeds binary32's
  // range.
  [[nodiscard]] FinishedStep finish(std::vector<at::Tensor> sums);

 private:
  // The gradients' top limbs; NotFinite where one has none.
  [[nodiscard]] std::vector<int> limbs_if_finite(const GrainResult& result) const;
  void expect_whole() const;
  void accumulate();
  [[nodiscard]] FinishedStep finish_rest();

  std::vector<std::string> names_;
  std::vector<std::vector<std::int64_t>> sizes_;
  c10::Device device_;
  std::int64_t step_, grains_;
  std::vector<at::Tensor> gradients_;              // of the first grain, while it is alone
  std::vector<int> limbs_;                         // theirs
  std::vector<GradientAccumulator> accumulators_;  // from the second on
  Rest rest_;
};

}  // namespace isobit::grains
