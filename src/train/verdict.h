// What comparing a recorded run with its recomputation gives. Of a stock run it is no verdict: nothing was promised, so
// the comparison goes on behind the first difference, to the metrics at the end. Plain values; no torch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "archive/record_types.h"

namespace isobit::train {

struct Difference {
  std::int64_t step = 0;
  std::string what, recorded, recomputed;
};

struct Verdict {
  std::optional<Difference> difference;  // nothing: identical
  std::int64_t first = 0, last = 0;      // steps compared
  std::string weights;                   // recomputed, of the end: "isobit-0.1:<32 hex>"; "" for a range before it
  std::string weights_sha256;            // of the same weights, recomputed
  std::int64_t start = 0;        // the computation started from the recorded checkpoint of this step; 0: the seed
  std::int64_t checkpoints = 0;  // so many were compared
  std::int64_t segments = 1;     // executed side by side, each from the checkpoint that the one before ended on
  std::vector<archive::OutsideLine> outside;  // of a Python program: what ran in stock arithmetic
  std::vector<std::string> not_recomputed;    // parts of the record that nothing was compared with, as words for people
  bool stock = false;                         // PyTorch computed as it comes
  std::vector<archive::MetricsLine> recorded_metrics, repeated_metrics;  // of a stock run: the last of each set
  bool whole = false;                                                    // from the initial weights to the end
  bool interrupted = false;                                              // nothing can be said
};

}  // namespace isobit::train
