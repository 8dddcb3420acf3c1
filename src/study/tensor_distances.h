// How far two tensors of the same shape lie apart.
//
// ULP distance of floats: how many representable numbers lie between them, +0 and -0 counting as one; NaN against NaN
// is 0, NaN against a number kNotComparable. Of integers: their difference. All in exact whole numbers; the relative
// norm is summed in binary64 in the order of the elements, by + * and sqrt alone: the same bits everywhere.
// Thread-safe; no state.
#pragma once

#include <cstdint>
#include <vector>

#include "archive/safetensors.h"

namespace isobit::study {

inline constexpr std::uint64_t kNotComparable = std::uint64_t{1} << 53;  // and the largest distance that is told

// Of several tensors taken together.
struct Distances {
  std::vector<std::uint64_t> ulp;  // of each element
  double squared_difference = 0, squared_reference = 0;
  std::uint64_t flipped = 0;  // elements above 0 here and below 0 there

  // Precondition: same dtype and shape. std::invalid_argument otherwise, and for F8, whose numbers are too few to
  // count.
  void add(const archive::TensorView& reference, const archive::TensorView& other);

  [[nodiscard]] std::uint64_t max_ulp() const;
  [[nodiscard]] std::uint64_t median_ulp();  // the lower of two; changes the order of `ulp`
  // |other - reference| / |reference|; 0 where both are 0, infinite where only the reference is.
  [[nodiscard]] double relative_norm() const;
  [[nodiscard]] double flipped_share() const;
};

}  // namespace isobit::study
