// Some of the samples of another source, renumbered from 0. Immutable; thread-safe.
#pragma once

#include <memory>

#include "samples/samples.h"

namespace isobit::samples {

// `ids` in the order they shall have; each at most once and within the source (std::invalid_argument).
[[nodiscard]] std::shared_ptr<const Samples> subset(std::shared_ptr<const Samples> of, std::vector<std::int64_t> ids);
// The first `count` (all, if there are no more).
[[nodiscard]] std::shared_ptr<const Samples> first_of(std::shared_ptr<const Samples> of, std::int64_t count);

}  // namespace isobit::samples
