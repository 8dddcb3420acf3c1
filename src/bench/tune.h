// `isobit tune`: block sizes of the kernels searched for this machine by measuring. Speed only; no bit depends on them.
#pragma once

#include <string>

namespace isobit::bench {

struct TuneOptions {
  std::string out, isa = "auto";
  int rounds = 7, threads = 0;
  bool json = false, dry_run = false, show = false;
};

// Measures, writes the table and prints it (archive/tuning_text.h). The process's exit code: 0, or 130 interrupted.
// archive::UserError for bad input.
[[nodiscard]] int tune(const TuneOptions& options);

}  // namespace isobit::bench
