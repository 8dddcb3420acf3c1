// isobit bench ops | step | profile | memory | recording: stock PyTorch against isobit, interleaved in one process.
#include "bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "archive/tuning_file.h"
#include "archive/user_error.h"
#include "bench/core_wait.h"
#include "bench/saved_rows.h"
#include "bench/workload.h"
#include "kernels/isa.h"
#include "kernels/isa_left_out.h"
#include "process/stop_signal.h"

namespace isobit::bench {
namespace {

nlohmann::json to_json(const BenchRow& row) {
  nlohmann::json json{
      {"model", row.model},       {"threads", row.threads},     {"isa", row.isa},
      {"stock_ms", row.stock_ms}, {"isobit_ms", row.isobit_ms}, {"ratio", row.ratio},
      {"spread", row.spread},     {"rounds", row.rounds},       {"median_of_ratios", row.median_of_ratios}};
  if (row.gflop > 0) {
    json["stock_gflops"] = row.gflop / row.stock_ms * 1e3;
    json["isobit_gflops"] = row.gflop / row.isobit_ms * 1e3;
  }
  if (row.gbytes > 0) json["mbytes"] = row.gbytes * 1e3;
  if (row.bound_ms > 0) {
    json["bound_ms"] = row.bound_ms;
    json["share_of_bound"] = row.bound_ms / row.isobit_ms;
  }
  return json;
}

void print_row(const BenchRow& row) {
  std::string rate;
  if (row.bound_ms > 0) rate = fmt::format("  {:10.4f} {:4.0f} %", row.bound_ms, 100 * row.bound_ms / row.isobit_ms);
  if (row.gflop > 0) {
    rate += fmt::format("  {:7.1f} {:7.1f}", row.gflop / row.stock_ms * 1e3, row.gflop / row.isobit_ms * 1e3);
  }
  fmt::print("{:52} {:>3} {:>9} {:10.4f} {:10.4f} {:7.3f} {:7.3f}{}\n", row.model, row.threads, row.isa, row.stock_ms,
             row.isobit_ms, row.ratio, row.spread, rate);
  std::fflush(stdout);
}

void print_heading(const std::string& what) {
  fmt::print("{:52} {:>3} {:>9} {:>10} {:>10} {:>7} {:>7}  {:>10} {:>6}  GFLOP/s stock, isobit\n", what, "thr", "isa",
             "stock ms", "isobit ms", "ratio", "spread", "bound ms", "share");
}

void check(const BenchArguments& arguments) {
  for (const int threads : arguments.options.threads) {
    if (threads < 1) throw archive::UserError("--threads", "must be at least 1", "for example --threads 1,2");
  }
  if (arguments.options.disturb > 99) {
    throw archive::UserError("--disturb", "must be at most 99", "for example --disturb 50");
  }
  if (arguments.options.disturb > 0 && arguments.what != "step") {
    throw archive::UserError("--disturb", "is for step", "leave it out of isobit bench " + arguments.what);
  }
  if (arguments.options.products != "ordered" && arguments.what != "ops" && arguments.what != "step") {
    throw archive::UserError("--products", "is for ops and step", "leave it out of isobit bench " + arguments.what);
  }
  for (const std::string& isa : arguments.options.isas) {
    const auto parsed = kernels::parse_isa(isa);
    if (!parsed) {
      throw archive::UserError("--isa", "unknown instruction set '" + isa + "'",
                               "use auto, reference, avx2, avx512, avx512vnni or amx");
    }
    if (kernels::isa_left_out(*parsed))
      throw archive::UserError("--isa " + isa, "was not built",
                               "scripts/build --all-isas builds every instruction set");
    if (!kernels::isa_available(*parsed)) {
      throw archive::UserError("--isa", "this CPU has no " + isa, "use auto");
    }
  }
}

std::optional<SavedRows> saved_rows(const BenchArguments& arguments) {
  if (arguments.save.empty()) return {};
  return SavedRows(arguments.save, {command_of(arguments), arguments.what, {{"torch", TORCH_VERSION}}});
}

// The end of what was timed: whether others used the cores meanwhile.
int end(const BenchArguments& arguments, const nlohmann::json& rows, std::optional<double> waited) {
  if (!arguments.json) {
    if (arguments.options.disturb == 0 && arguments.what != "memory") fmt::print("{}", wait_note(waited));
    return 0;
  }
  nlohmann::ordered_json all{
      {"format", "isobit-bench-rows-1"}, {"what", arguments.what}, {"waited", nullptr}, {"rows", rows}};
  if (waited) all["waited"] = *waited;
  fmt::print("{}\n", all.dump(2));
  return 0;
}

// Of rows that are known together at the end.
int save_and_end(const BenchArguments& arguments, const nlohmann::json& rows, std::optional<double> waited) {
  if (const auto saved = saved_rows(arguments)) {
    for (const nlohmann::json& row : rows) saved->append(row, arguments.what == "memory" ? std::nullopt : waited);
  }
  return end(arguments, rows, waited);
}

int profile(const BenchArguments& arguments) {
  const CoreWait cores;
  const auto rows = bench_profile(arguments.options);
  nlohmann::json all = nlohmann::json::array();
  std::string title;
  for (const ProfileRow& row : rows) {
    all.push_back({{"model", row.model},
                   {"threads", row.threads},
                   {"isa", row.isa},
                   {"operator", row.op},
                   {"rounds", arguments.options.rounds},
                   {"stock_ms", row.stock_ms},
                   {"isobit_ms", row.isobit_ms}});
    if (arguments.json) continue;
    const std::string setting = fmt::format("{}, {} threads, {}", row.model, row.threads, row.isa);
    if (setting != title)
      fmt::print("{:52} {:>10} {:>10} {:>10}\n", title = setting, "stock ms", "isobit ms", "more ms");
    fmt::print("  {:50} {:10.3f} {:10.3f} {:+10.3f}\n", row.op, row.stock_ms, row.isobit_ms,
               row.isobit_ms - row.stock_ms);
  }
  return save_and_end(arguments, all, cores.share());
}

int memory(const BenchArguments& arguments) {
  const CoreWait cores;
  const auto rows = bench_memory(arguments.options);
  nlohmann::json all = nlohmann::json::array();
  if (!arguments.json)
    fmt::print("{:20} {:>3} {:>9} {:>10} {:>10} {:>7}\n", "memory", "thr", "isa", "stock MiB", "isobit MiB", "ratio");
  for (const MemoryRow& row : rows) {
    const double ratio = row.isobit_mib / row.stock_mib;
    all.push_back({{"model", row.model},
                   {"threads", row.threads},
                   {"isa", row.isa},
                   {"stock_mib", row.stock_mib},
                   {"isobit_mib", row.isobit_mib},
                   {"ratio", ratio}});
    if (arguments.json) continue;
    fmt::print("{:20} {:>3} {:>9} {:10.1f} {:10.1f} {:7.3f}\n", row.model, row.threads, row.isa, row.stock_mib,
               row.isobit_mib, ratio);
  }
  return save_and_end(arguments, all, cores.share());
}

int recording(const BenchArguments& arguments) {
  const CoreWait cores;
  const auto [rows, interrupted] = bench_recording(arguments.options);
  nlohmann::json all = nlohmann::json::array();
  if (!arguments.json)
    fmt::print("{:20} {:>3} {:>9} {:>10} {:>11} {:>9} {:>9}\n", "recording", "thr", "isa", "without ms", "recorded ms",
               "share %", "spread %");
  for (const RecordingRow& row : rows) {
    all.push_back({{"model", row.model},
                   {"threads", row.threads},
                   {"isa", row.isa},
                   {"plain_ms", row.plain_ms},
                   {"recorded_ms", row.recorded_ms},
                   {"share", row.share},
                   {"spread", row.spread},
                   {"rounds", arguments.options.rounds}});
    if (arguments.json) continue;
    fmt::print("{:20} {:>3} {:>9} {:10.4f} {:11.4f} {:+9.2f} {:9.2f}\n", row.model, row.threads, row.isa, row.plain_ms,
               row.recorded_ms, 100 * row.share, 100 * row.spread);
  }
  const int code = save_and_end(arguments, all, cores.share());
  return interrupted ? process::kInterruptedExit : code;
}

}  // namespace

int run_bench(BenchArguments arguments) {
  check(arguments);
  const auto saved = saved_rows(arguments);  // what stands in its way is said before minutes are spent
  archive::load_tuning();
  if (arguments.what == "profile") return profile(arguments);
  if (arguments.what == "memory") return memory(arguments);
  if (arguments.what == "recording") return recording(arguments);
  arguments.options.report = [&, first = true, cores = CoreWait()](const BenchRow& row) mutable {
    if (!arguments.json) {
      if (std::exchange(first, false)) print_heading(arguments.what);
      print_row(row);
    }
    if (saved) saved->append(to_json(row), cores.share());
    cores = CoreWait();
  };
  const CoreWait cores;
  const auto rows = arguments.what == "ops" ? bench_operators(arguments.options) : bench_steps(arguments.options);
  nlohmann::json all = nlohmann::json::array();
  for (const BenchRow& row : rows) all.push_back(to_json(row));
  return end(arguments, all, cores.share());
}

}  // namespace isobit::bench
