// The Philox key of a random operator. Private to this folder.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace isobit::aten {

// One 64-bit number of the generator, or of the default CPU generator (aten/generator_scope.h) on every device, so that
// all draw the same.
// Refuses generators of devices.
[[nodiscard]] std::uint64_t take_key(const char* op, const std::optional<at::Generator>& generator);

}  // namespace isobit::aten
