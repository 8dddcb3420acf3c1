// Two checkpoints of one step, compared tensor by tensor where they are isobit's own. Thread-safe.
#pragma once

#include <filesystem>
#include <string>

namespace isobit::study {

// "" where both hold the same, else what differs first: "weights.fc1.weight: 1 of 640 elements differ, at most 2 ULP".
// Files of Python programs: the part (archive/checkpoint_compare.h). UserError where one cannot be read.
[[nodiscard]] std::string different_checkpoint(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace isobit::study
