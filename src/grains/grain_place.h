// Where in a run a grain lies. Plain values.
#pragma once

#include <cstdint>

namespace isobit::grains {

struct GrainPlace {
  std::int64_t step = 0, epoch = 0;   // from 1
  std::int64_t index = 0;             // of the step's grains, from 0
  std::int64_t first = 0, count = 0;  // positions in the epoch's order
  std::int64_t in_step = 0;           // `first` within the step

  friend bool operator==(const GrainPlace&, const GrainPlace&) = default;
};

}  // namespace isobit::grains
