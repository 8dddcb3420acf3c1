// The files of two checkpoints of one step, compared. Thread-safe; no state.
#pragma once

#include <filesystem>
#include <string>

namespace isobit::archive {

// "" where both hold the same, else the part that differs first: "archive/data/3". Files that torch.save wrote (zip,
// nothing compressed) may differ in what PyTorch says of its version there; all others agree in every byte. Nothing of
// them is executed, and what they say of themselves is not trusted. UserError where one cannot be read.
[[nodiscard]] std::string different_part(const std::filesystem::path& recorded,
                                         const std::filesystem::path& recomputed);

}  // namespace isobit::archive
