// What a step gave, and what the steps of an epoch gave so far. Plain values; no torch.
#pragma once

#include <cstdint>
#include <optional>

#include "grains/counts.h"
#include "kernels/fingerprint.h"
#include "train/schedule.h"

namespace isobit::train {

struct StepResult {
  StepPlace place;
  double lr = 0;
  float loss = 0;
  std::int64_t correct = 0;                         // targets predicted during training, before the update
  kernels::Fingerprint batch_digest;                // of the list (fields, samples) as the network saw it
  std::optional<kernels::Fingerprint> gradients{};  // by parameter's name, as the optimizer is given them; where due
};

// Sums over the steps of the current epoch, in binary64 in step order.
struct EpochSums {
  double loss = 0;    // of loss * weight
  double weight = 0;  // of samples; where they differ in weight, of D
  std::int64_t samples = 0;
  grains::Counts counts;
  bool derivable = true;  // weight and targets follow from samples; checkpoints leave them out
};

}  // namespace isobit::train
