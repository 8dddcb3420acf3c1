// What a run draws random numbers for: the purposes of contract::derive_key (docs/contract.md, section 5).
//
// A purpose and its two numbers name a key once and for all; steps and epochs count from 1, grains, samples
// and parameters from 0. (The order of samples has its own purpose in contract/order_plan.h.)
#pragma once

#include <cstdint>

namespace isobit::train {

enum class Purpose : std::uint32_t {
  initial_weights = 0x696e6974,  // "init": (place of the parameter's name in sorted order, 0)
  grain = 0x6772616e,            // "gran": (step, grain) seeds the default generator before the grain
  augmentation = 0x6175676d,     // "augm": (epoch, sample)
  grain_schedule = 0x67736368,   // "gsch": (step, 0) orders execution under --grain-order shuffled; no bits
};

}  // namespace isobit::train
