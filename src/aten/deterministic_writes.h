// While it lives, of writes to one place the last in order wins: stock's parallel writes leave that open, its
// deterministic mode does not. Process-wide, as the mode is.
#pragma once

#include <ATen/Context.h>

namespace isobit::aten {

class DeterministicWrites {
 public:
  DeterministicWrites()
      : before_(at::globalContext().deterministicAlgorithms()),
        warn_before_(at::globalContext().deterministicAlgorithmsWarnOnly()) {
    if (!before_) at::globalContext().setDeterministicAlgorithms(true, false);
  }
  ~DeterministicWrites() {
    if (!before_) at::globalContext().setDeterministicAlgorithms(false, warn_before_);
  }
  DeterministicWrites(const DeterministicWrites&) = delete;
  DeterministicWrites& operator=(const DeterministicWrites&) = delete;

 private:
  bool before_, warn_before_;
};

}  // namespace isobit::aten
