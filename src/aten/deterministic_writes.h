// While it lives, of writes to one place the last in order wins: stock's parallel writes leave that open, its
// deterministic mode does not. Process-wide, as the mode is.
#pragma once

#include <ATen/Context.h>

#include <cstdint>
#include <mutex>

namespace isobit::aten {

class DeterministicWrites {
 public:
  DeterministicWrites() {
    const std::lock_guard lock(mode().mutex);
    if (mode().users++ > 0) return;
    mode().before = at::globalContext().deterministicAlgorithms();
    mode().warn_before = at::globalContext().deterministicAlgorithmsWarnOnly();
    if (!mode().before) at::globalContext().setDeterministicAlgorithms(true, false);
  }
  ~DeterministicWrites() {
    const std::lock_guard lock(mode().mutex);
    if (--mode().users == 0 && !mode().before)
      at::globalContext().setDeterministicAlgorithms(false, mode().warn_before);
  }
  DeterministicWrites(const DeterministicWrites&) = delete;
  DeterministicWrites& operator=(const DeterministicWrites&) = delete;

 private:
  // The process's: the last thread that leaves puts back what the first one found.
  struct Mode {
    std::mutex mutex;
    std::int64_t users = 0;
    bool before = false, warn_before = false;
  };
  static Mode& mode() {
    static Mode* const mode = new Mode;
    return *mode;
  }
};

}  // namespace isobit::aten
