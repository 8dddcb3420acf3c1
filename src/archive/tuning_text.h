// The table of block sizes (tuning_file.h) as `isobit tune` shows it. No state; one thread.
#pragma once

#include <string>

#include "kernels/tuning.h"

namespace isobit::archive {

struct TuningReport {
  std::string file;  // read or written; empty: none
  double saved = 0;  // of the time, where measured
  bool measured = false;
  int threads = 0;       // where measured
  std::string isa = {};  // where measured
  bool json = false;
};

// On stdout: each size beside its default, or one JSON object.
void print_tuning(const kernels::Tuning& tuning, const TuningReport& report);

// The table in force.
void show_tuning(bool json);

}  // namespace isobit::archive
