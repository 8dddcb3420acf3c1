// `isobit bench`: the shared options, and the two kinds of rows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/timing.h"

namespace isobit::bench {

struct BenchOptions {
  std::vector<int> threads{1};
  std::vector<std::string> isas{"auto"};
  std::vector<std::string> models{"mlp", "lenet5", "resnet18-32"};
  std::string filter;                // operators whose name contains it
  std::string products = "ordered";  // isobit's tier of them: of operators and steps
  int rounds = 15;
  int disturb = 0;         // steps: percent of a core that another process uses meanwhile
  bool inference = false;  // rows for the forward pass in evaluation mode, batch 1 and 64, too
  bool only_inference = false;
  std::function<void(const BenchRow&)> report;  // called as each row is known
};

// Runs body(threads, isa) for every combination with the kernels set accordingly; restores both after.
void for_each_setting(const BenchOptions& options, const std::function<void(int, const std::string&)>& body);

// The stock side: torch's own threads, our switch off. The isobit side: our pool, the switch (and guard) on.
double on_stock(int threads, const std::function<double()>& body);
double on_isobit(int threads, const std::function<double()>& body, const std::string& products = "ordered");

// A step's share of one outermost operator (forward) or autograd node (backward), medians over the rounds.
struct ProfileRow {
  std::string model;
  int threads = 1;
  std::string isa, op;
  double stock_ms = 0, isobit_ms = 0;
};

// Peak resident memory of a process that makes a few training steps (contiguous layout on both sides).
struct MemoryRow {
  std::string model;
  int threads = 1;
  std::string isa;
  double stock_mib = 0, isobit_mib = 0;
};

// Time per training step of the trainer without and with a record (loss and batch digest every step, weights every 20).
struct RecordingRow {
  std::string model;
  int threads = 1;
  std::string isa;
  double plain_ms = 0, recorded_ms = 0, share = 0, spread = 0;  // share: recorded / plain - 1; spread: of the rounds'
};
struct RecordingRows {
  std::vector<RecordingRow> rows;  // of the settings that were measured
  bool interrupted = false;        // by SIGINT or SIGTERM; nothing is left in the scratch folder
};

struct BenchArguments {
  std::string what;  // ops, step, profile, memory or recording
  BenchOptions options;
  bool json = false;
  std::string save;  // file that the rows are appended to (saved_rows.h); "": none
};

// The command that measures the same again: what differs from the defaults, without --json and --save.
[[nodiscard]] std::string command_of(const BenchArguments& arguments);

// Measures, prints rows as each is known, and saves them. The process's exit code. archive::UserError for bad input.
[[nodiscard]] int run_bench(BenchArguments arguments);

RecordingRows bench_recording(const BenchOptions& options);
std::vector<MemoryRow> bench_memory(const BenchOptions& options);
std::vector<ProfileRow> bench_profile(const BenchOptions& options);
std::vector<BenchRow> bench_operators(const BenchOptions& options);
std::vector<BenchRow> bench_steps(const BenchOptions& options);

}  // namespace isobit::bench
