// The tuning table of a machine (docs/formats/tuning.md): sizes that change speed, never a bit. JSON; written by
// `isobit tune`.
#pragma once

#include <filesystem>

#include "kernels/tuning.h"

namespace isobit::archive {

// $ISOBIT_TUNING, else isobit/tuning.json in $XDG_CONFIG_HOME or ~/.config; empty where none of these is set.
[[nodiscard]] std::filesystem::path tuning_path();

// Puts the table of tuning_path() in force. A missing file, or one of another CPU, leaves the defaults; false then. A
// file that was named by $ISOBIT_TUNING must exist. UserError naming the file, the key and the remedy for anything
// else.
bool load_tuning();

// UserError where the file could not be written there. Writes nothing.
void expect_writable_tuning(const std::filesystem::path& path);

// Atomically; folders are made.
void write_tuning(const std::filesystem::path& path, const kernels::Tuning& tuning);

}  // namespace isobit::archive
