// A checkpoint: named tensors and a text, in one safetensors file (metadata key "state"). Immutable.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "archive/safetensors.h"

namespace isobit::archive {

// An entry of checkpoints.jsonl.
struct CheckpointEntry {
  std::int64_t step = 0;
  std::string file;  // relative to the run's folder
  std::uint64_t size = 0;
  std::string sha256;
  std::string weights_sha256;  // of the weights in it (weights_digest.h); "" in records of earlier versions
};

// Which checkpoints' files stay: the newest (0: all), and those after the steps for which `also` says so.
struct Retention {
  Retention(std::int64_t newest_ = 0, std::function<bool(std::int64_t step)> also_ = {})
      : newest(newest_), also(std::move(also_)) {}
  [[nodiscard]] bool keeps(std::int64_t step) const { return also && also(step); }

  std::int64_t newest;
  std::function<bool(std::int64_t step)> also;
};

class Checkpoint {
 public:
  Checkpoint(std::int64_t step, Safetensors contents) : step_(step), contents_(std::move(contents)) {}

  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] const Safetensors& contents() const { return contents_; }
  // What write_checkpoint was given beside the tensors.
  [[nodiscard]] const std::string& state() const { return contents_.metadata().at("state"); }

 private:
  std::int64_t step_;
  Safetensors contents_;
};

}  // namespace isobit::archive
