// A training state as a checkpoint's tensors and text, and back.
//
// Tensors: "weights.<name>" (parameters and buffers), "optimizer.<name>". Text: checkpoint_text.h. The generator has no
// state of its own: it is seeded anew at every grain from the run's seed (contract, section 5).
// Errors in the text are archive::UserError. No state; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "archive/checkpoint.h"
#include "archive/safetensors.h"
#include "train/schedule.h"
#include "train/trainer.h"

namespace isobit::train {

// Views into the state's tensors: valid while they live and do not change.
[[nodiscard]] std::vector<archive::TensorView> checkpoint_tensors(const TrainingState& state);
// The weights alone, by their own names.
[[nodiscard]] std::vector<archive::TensorView> weight_tensors(const TrainingState& state);
[[nodiscard]] std::string checkpoint_text(const TrainingState& state, const Timetable& timetable);

// Whether dtype, shape and every bit are the same; any NaN is as good as another (contract, section 1).
[[nodiscard]] bool same_tensor(const archive::TensorView& a, const archive::TensorView& b);
// "F32 [64, 10], sha256 0123456789abcdef...", of its bytes
[[nodiscard]] std::string describe(const archive::TensorView& tensor);

// Tensors own their memory.
[[nodiscard]] TrainingState read_checkpoint(const archive::Checkpoint& checkpoint);
// Reads and restores; UserError where the checkpoint is not one of this trainer's experiment.
void restore_from(Trainer& trainer, const archive::Checkpoint& checkpoint);

}  // namespace isobit::train
