// state.json: what a run is and how far it came; and the names in a run's folder. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "archive/sha256.h"

namespace isobit::archive {

inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kExperimentFile = "experiment.toml";
inline constexpr const char* kEnvironmentFile = "environment.json";
inline constexpr const char* kDataFile = "data.json";
inline constexpr const char* kCheckpointFolder = "checkpoints";

struct StateFile {
  std::string id, name, contract, created;
  std::string state = "running";                // running, failed, finished: what its writer last said
  std::int64_t steps = 0;                       // when this was written
  std::string weights, weights_sha256, reason;  // the second "" in records of isobit 0.1
  std::map<std::string, FileDigest> inputs;     // experiment.toml, data.json, environment.json, environment-2.json, ...
};

[[nodiscard]] std::string format_state(const StateFile& state);
// UserError naming `place`, also for a text that format_state would not write.
[[nodiscard]] StateFile parse_state(const std::string& text, const std::string& place);

// 1 to 64 of A-Z a-z 0-9 - _ . and no dot first.
[[nodiscard]] bool is_run_name(std::string_view name);

// "20261121-045835-<name>-3f9a2c01": time, name, 8 digits.
[[nodiscard]] bool is_run_id(std::string_view id, std::string_view name);

// "2026-11-21T04:58:35.123456Z"
[[nodiscard]] std::string utc_now();

// How large a file of a record can be: what is parsed as a whole is small in any run.
[[nodiscard]] std::uint64_t largest_file(std::string_view path);

// A file in checkpoints/ (checkpoints.jsonl is not one).
[[nodiscard]] inline bool is_checkpoint(const std::string& path) {
  return path.starts_with(std::string(kCheckpointFolder) + "/");
}

// UserError unless the text's size and SHA-256 are those of `expected`.
void require_digest(const std::string& text, const FileDigest& expected, const std::filesystem::path& path);

}  // namespace isobit::archive
