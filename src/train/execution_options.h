// How this process executes: device, threads, instruction set, order of grains. None of them changes a bit of any
// result of isobit's; stock PyTorch's follow from threads and capability. The command line's options of these names are
// declared in cli/execution_flags.h. Not thread-safe: apply() sets what the whole process uses.
#pragma once

#include <string>
#include <vector>

#include "train/trainer.h"

namespace isobit::train {

struct ExecutionOptions {
  int threads = 0;  // 0: what affinity and cgroup allow
  std::string isa = "auto";
  std::string device = "cpu";
  std::string grain_order = "ascending";
  std::string capability;  // of stock PyTorch's kernels; "": the CPU's, or $ATEN_CPU_CAPABILITY's

  // Sets the kernels' pool and instruction set, and keeps torch to one thread of its own (ours do the work).
  // UserError for a thread count, instruction set or device that this machine or build cannot give. BeginAnew where
  // the capability needs a process of its own (capability.h).
  void apply() const;
  // For experiments of stock arithmetic, whose kernels are PyTorch's: UserError for an instruction set or a device.
  void expect_stock() const;
  // Of a stock record that is executed again, or further, by its environment.json: its threads and its capability,
  // where no others are asked for; both decide its bits. May throw BeginAnew.
  void repeat_stock(const std::string& environment) const;
  // After apply().
  [[nodiscard]] train::Execution execution() const;
  // The options but --threads, as words for another process of this program.
  [[nodiscard]] std::vector<std::string> words() const;
  // "cpu", or "cuda:0 (NVIDIA H200, ...)"
  [[nodiscard]] std::string device_description() const;
};

}  // namespace isobit::train
