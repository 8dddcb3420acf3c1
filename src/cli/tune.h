// isobit tune in two halves: showing the table needs no torch, measuring a new one does.
#pragma once

#include <string>

#include "kernels/tuning.h"

namespace isobit::cli {

struct TuneOptions {
  std::string out, isa = "auto";
  int rounds = 7, threads = 0;
  bool json = false, dry_run = false, show = false;
};

struct TuningReport {
  std::string file;  // read or written; empty: none
  double saved = 0;  // of the time, where measured
  bool measured = false;
  int threads = 0;       // where measured
  std::string isa = {};  // where measured
  bool json = false;
};

void print_tuning(const kernels::Tuning& tuning, const TuningReport& report);

// Measures and writes; the process's exit code. Empty where the program has no kernels to measure (torch_library.h).
int (*&tune_search())(const TuneOptions&);

}  // namespace isobit::cli
