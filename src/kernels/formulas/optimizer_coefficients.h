// Host scalars of an optimizer step, computed in binary64 and cast to binary32 where torch casts them.
#pragma once

#include "contract/optimizer.h"
#include "kernels/optimizer.h"

namespace isobit::kernels {

[[nodiscard]] contract::SgdCoefficients coefficients(const SgdOptions& options, bool first_step);
// step >= 1
[[nodiscard]] contract::AdamCoefficients coefficients(const AdamOptions& options, std::int64_t step);

}  // namespace isobit::kernels
