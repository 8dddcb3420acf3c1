// The state of a worker that is ahead, for those who are behind: what is not in its tensors. CBOR; WireError for bytes
// that encode_state did not make. No torch; no state; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "scale/messages.h"
#include "train/epoch_sums.h"

namespace isobit::scale {

struct DecodedState {
  std::int64_t steps_done = 0;
  train::EpochSums sums;
  std::shared_ptr<train::StepResult> result;  // of step steps_done, where the sender knows it
  std::string notes;
};

// `result` may be null, or of another step: it is left out then.
[[nodiscard]] Bytes encode_state(std::int64_t steps_done, const train::EpochSums& sums, const train::StepResult* result,
                                 const std::string& notes);
[[nodiscard]] DecodedState decode_state(const Bytes& bytes);

}  // namespace isobit::scale
