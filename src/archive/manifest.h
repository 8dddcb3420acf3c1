// The seal of a finished run: path, size and SHA-256 of every file, and the manifest's own digest.
//
// Text in one spelling only: parse_manifest accepts exactly what format_manifest writes, so a flipped bit
// anywhere in it is found. Errors are UserError. Thread-safe; no state.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "archive/sha256.h"

namespace isobit::archive {

// What helps where a file of a finished record is not what it was.
inline constexpr const char* kRestore = "restore the run's folder from a copy";

inline constexpr const char* kManifest = "manifest.json";

struct Manifest {
  std::string run;                          // its id
  std::map<std::string, FileDigest> files;  // by path relative to the run's folder; not the manifest itself
};

[[nodiscard]] std::string format_manifest(const Manifest& manifest);
// `place` names the source in errors.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& place);

// Relative paths of all entries below the folder that are no directories, in byte order, without the
// manifest; and directories other than checkpoints/ with a '/' at the end.
[[nodiscard]] std::vector<std::string> list_files(const std::filesystem::path& folder);

}  // namespace isobit::archive
