#include "cli/execution_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <signal.h>

#include "archive/suggest.h"
#include "archive/user_error.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::cli {
namespace {

using archive::UserError;

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // so that a signal handler may set it

void request_stop(int) { stop_requested = true; }

std::string available() {
  std::string names = "auto";
  for (const kernels::Isa isa : kernels::available_isas()) names += fmt::format(", {}", kernels::name(isa));
  return names;
}

}  // namespace

void ExecutionOptions::declare(CLI::App& app) {
  app.add_option("--threads", threads, "Threads that compute; the bits do not depend on it (default: all this process may use)")
      ->type_name("N")
      ->each([](const std::string& text) {
        char* end = nullptr;
        const long n = std::strtol(text.c_str(), &end, 10);
        if (*end == '\0' && n >= 1 && n <= 1024) return;
        throw UserError("--threads " + text, "not a number of threads", "give 1 to 1024, or leave the option out");
      });
  app.add_option("--isa", isa, "Instruction set: auto, reference, avx2, avx512; the bits do not depend on it")->type_name("ISA");
  app.add_option("--grain-order", grain_order, "Order in which grains are executed: ascending or shuffled; the bits do not depend on it")
      ->type_name("ORDER")
      ->group("Advanced");
}

void ExecutionOptions::apply() const {
  const auto chosen = kernels::parse_isa(isa);
  if (!chosen) throw UserError("--isa " + isa, "unknown instruction set", "this machine has " + available());
  if (!kernels::isa_available(*chosen)) {
    throw UserError("--isa " + isa, "this processor does not have it", "this machine has " + available());
  }
  (void)order();
  kernels::set_isa(*chosen);
  kernels::set_thread_count(threads > 0 ? threads : kernels::available_cpus());
  at::set_num_threads(1);
}

train::GrainOrder ExecutionOptions::order() const {
  if (grain_order == "ascending") return train::GrainOrder::ascending;
  if (grain_order == "shuffled") return train::GrainOrder::shuffled;
  throw UserError("--grain-order " + grain_order, "unknown order", "give ascending or shuffled");
}

StopSignal::StopSignal() {
  stop_requested = false;
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

StopSignal::~StopSignal() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

const std::atomic<bool>& StopSignal::flag() const { return stop_requested; }

}  // namespace isobit::cli
