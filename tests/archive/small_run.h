// A small run for tests: folders of their own, inputs, lines and tensors that are functions of the step.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "archive/files.h"
#include "archive/manifest.h"
#include "archive/run_record.h"
#include "archive/run_state.h"
#include "archive/run_writer.h"
#include "archive/runs.h"
#include "archive/user_error.h"

namespace isobit::archive {

namespace fs = std::filesystem;

// An empty folder that goes when the object does; also where the user's index lies meanwhile. In memory where
// the system has such a folder: records wait for the disk at every file.
class Scratch {
 public:
  Scratch()
      : path_((::access("/dev/shm", W_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path()) /
              ("isobit-test-" + random_suffix())) {
    fs::create_directories(path_);
    ::setenv("XDG_CACHE_HOME", (path_ / "cache").c_str(), 1);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] fs::path runs() const { return path_ / "runs"; }

 private:
  fs::path path_;
};

inline RunInputs small_inputs(const std::string& name = "small") {
  return {name, "name = \"" + name + "\"\nseed = 7\n", "{\"contract\": \"test\"}\n", "{\"files\": []}\n"};
}

inline constexpr const char* kWeights = "isobit-0.1:00112233445566778899aabbccddeeff";

inline StepLine small_step(std::int64_t step) {
  StepLine line{step,
                1 + (step - 1) / 4,
                static_cast<std::uint32_t>(0x3f000000 + step * 977),
                std::string(32, 'a' + step % 6),
                "",
                ""};
  if (step % 2 == 0) line.weights = line.optimizer = std::string(32, '0' + step % 10);
  return line;
}

// Tensors whose elements are functions of the step; the object owns them.
struct SmallTensors {
  explicit SmallTensors(std::int64_t step) : weight(6, static_cast<float>(step) + 0.25f), count(1, step) {}
  [[nodiscard]] std::vector<TensorView> views() const {
    return {{"weight", "F32", {2, 3}, std::as_bytes(std::span(weight))},
            {"count", "I64", {}, std::as_bytes(std::span(count))}};
  }
  std::vector<float> weight;
  std::vector<std::int64_t> count;
};

// Steps first..last, metrics every fourth, a checkpoint every `every`.
inline void write_steps(RunWriter& writer, std::int64_t first, std::int64_t last, std::int64_t every = 3,
                        std::int64_t keep = 2) {
  for (std::int64_t step = first; step <= last; ++step) {
    writer.append_step(small_step(step));
    if (step % 4 == 0)
      writer.append_metrics(
          {step, step / 4, "test", {{"accuracy", 0.5 + 0.01 * double(step)}, {"loss", 1.0 / double(step)}}});
    writer.append_timing({step, "step", 0.001, 64});
    if (step % every == 0)
      writer.write_checkpoint(SmallTensors(step).views(), "{\"step\": " + std::to_string(step) + "}", keep,
                              std::string(64, 'a'));
  }
}

// A finished run of 8 steps; its folder.
inline fs::path finished_run(const fs::path& runs, const std::string& name = "small") {
  RunWriter writer = RunWriter::create(runs, small_inputs(name));
  write_steps(writer, 1, 8);
  writer.finish(kWeights);
  return writer.folder();
}

inline void overwrite(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// The same for content of the same length, without cutting the file first (which waits for the disk).
inline void overwrite_in_place(const fs::path& path, const std::string& content) {
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// A new seal over whatever lies in the folder now, as whoever can write it can make: inputs' digests in state.json,
// then the manifest.
inline void seal_anew(const fs::path& run) {
  StateFile state = parse_state(read_file(run / kStateFile), kStateFile);
  for (auto& [path, digest] : state.inputs) {
    if (fs::exists(run / path)) digest = digest_file(run / path);
  }
  overwrite(run / kStateFile, format_state(state));
  Manifest manifest;
  manifest.run = state.id;
  for (const std::string& path : list_files(run)) {
    if (fs::is_regular_file(run / path)) manifest.files[path] = digest_file(run / path);
  }
  overwrite(run / kManifest, format_manifest(manifest));
}

// The message of the UserError that `action` throws; "" where it throws none.
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace isobit::archive
