// isobit bench ops | step | profile | memory | recording: stock PyTorch against isobit, interleaved in one process.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "archive/user_error.h"
#include "bench/bench.h"
#include "bench/workload.h"
#include "cli/command.h"

namespace isobit::cli {
namespace {

Action declare_bench(OptionSet& app) {
  auto arguments = std::make_shared<bench::BenchArguments>();
  app.add("what", arguments->what,
          "ops (operator by operator), step (whole training steps), profile (operators of a step), memory (peak of a "
          "few steps) or recording (what a record costs)")
      .type("WHAT")
      .required()
      .one_of({"ops", "step", "profile", "memory", "recording"});
  app.add("--models", arguments->options.models,
          "step, profile, memory, recording: " + fmt::format("{}", fmt::join(bench::workload_names(), ", ")) +
              " (comma-separated)")
      .comma_separated()
      .one_of(bench::workload_names())
      .show_default();
  app.add("--filter", arguments->options.filter, "ops: only those whose name contains this");
  app.add("--threads", arguments->options.threads, "thread counts (comma-separated)").comma_separated().show_default();
  app.add("--isa", arguments->options.isas,
          "auto, reference, avx2, avx512; for exact3 also avx512vnni, amx (comma-separated)")
      .comma_separated()
      .show_default();
  app.add("--products", arguments->options.products, "ops, step: how isobit sums products")
      .one_of({"ordered", "exact3"})
      .show_default();
  app.add("--rounds", arguments->options.rounds, "interleaved rounds; the median is printed")
      .at_least(1)
      .show_default();
  app.add("--disturb", arguments->options.disturb, "step: percent of one core that another process uses meanwhile")
      .type("PERCENT")
      .at_least(0);
  app.flag("--inference", arguments->options.inference,
           "step: also the forward pass in evaluation mode, batch 1 and 64");
  app.flag("--only-inference", arguments->options.only_inference, "step: those alone");
  app.add("--save", arguments->save,
          "Append the rows to FILE, made where missing: a JSON object a line, with command, machine, commit, date and "
          "torch's version; results that pages quote are kept in a checkout's bench/results/*.jsonl")
      .type("FILE");
  app.flag("--json", arguments->json,
           "One object: the rows, and the share of the time that others had the cores (waited)");
  return [arguments] { return bench::run_bench(*arguments); };
}

const CommandRegistration bench_command({.name = "bench",
                                         .summary = "Time stock PyTorch against isobit",
                                         .example = "isobit bench step --models lenet5 --threads 1,2",
                                         .group = Group::scale,
                                         .rank = 60,
                                         .declare = declare_bench});

}  // namespace
}  // namespace isobit::cli
