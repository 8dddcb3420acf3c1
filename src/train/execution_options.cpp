#include "train/execution_options.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>

#include "archive/recorded_settings.h"
#include "archive/suggest.h"
#include "archive/tuning_file.h"
#include "archive/user_error.h"
#include "aten/device_work.h"
#include "kernels/device.h"
#include "kernels/isa.h"
#include "kernels/isa_left_out.h"
#include "kernels/threads.h"
#include "process/capability.h"

namespace isobit::train {
namespace {

using archive::UserError;

std::string available() {
  std::string names = "auto";
  for (const kernels::Isa isa : kernels::available_product_isas()) names += fmt::format(", {}", kernels::name(isa));
  return names;
}

// "cpu", "cuda" (the first), "cuda:1"; nothing for other words.
std::optional<c10::Device> parse_device(const std::string& text) {
  if (text == "cpu") return c10::Device(c10::kCPU);
  if (text == "cuda") return c10::Device(c10::kCUDA, 0);
  static const std::regex indexed("cuda:([0-9]{1,2})");
  std::smatch match;
  if (!std::regex_match(text, match, indexed)) return {};
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(std::stoi(match[1])));
}

c10::Device usable_device(const std::string& text) {
  const std::string place = "--device " + text;
  const auto device = parse_device(text);
  if (!device) throw UserError(place, "unknown device", "use cpu, cuda or cuda:INDEX");
  if (device->is_cpu()) return *device;
  try {
    aten::require_device(*device);
  } catch (const kernels::DeviceError& error) {  // "cuda:0: problem\n  do     remedy", or more lines of problem
    std::string problem = error.what(), remedy = "use --device cpu";
    problem = problem.substr(std::min(problem.size(), device->str().size() + 2));
    if (const auto end = problem.find("\n  do     "); end != std::string::npos) {
      remedy = problem.substr(end + 10);
      problem = problem.substr(0, end);
    }
    for (auto line = problem.find("\n  "); line != std::string::npos; line = problem.find("\n  "))
      problem.replace(line, 3, "; ");
    throw UserError(place, problem, remedy);
  }
  return *device;
}

train::GrainOrder parse_order(const std::string& text) {
  if (text == "ascending") return train::GrainOrder::ascending;
  if (text == "shuffled") return train::GrainOrder::shuffled;
  throw UserError("--grain-order " + text, "unknown order", "use ascending or shuffled");
}

}  // namespace

void ExecutionOptions::apply() const {
  if (!capability.empty()) {
    process::expect_capability(capability, "--capability " + capability);
    process::require_variables(process::capability_variables(capability));
  } else if (const char* level = std::getenv("ATEN_CPU_CAPABILITY")) {
    // PyTorch passes over a word that it does not know, and believes the others.
    if (!process::capability_variables(level).empty())
      process::expect_capability(level, fmt::format("ATEN_CPU_CAPABILITY={}", level));
  }
  const auto chosen = kernels::parse_isa(isa);
  if (!chosen) throw UserError("--isa " + isa, "unknown instruction set", "this machine has " + available());
  if (!kernels::isa_available(*chosen)) {
    if (kernels::isa_left_out(*chosen)) {
      throw UserError("--isa " + isa, "was not built",
                      "scripts/build --all-isas builds every instruction set; this build has " + available());
    }
    throw UserError("--isa " + isa, "this processor lacks it", "this machine has " + available());
  }
  (void)execution();
  kernels::set_isa(*chosen, isa == "auto");
  kernels::set_thread_count(threads > 0 ? threads : kernels::available_cpus());
  at::set_num_threads(1);
  archive::load_tuning();
}

void ExecutionOptions::expect_stock() const {
  if (isa != "auto") {
    throw UserError("--isa " + isa, "does not reach stock PyTorch's kernels (arithmetic.kind)",
                    "leave it out, or use --capability (it sets ATEN_CPU_CAPABILITY and what MKL and oneDNN read)");
  }
  if (device != "cpu")
    throw UserError("--device " + device, "stock PyTorch (arithmetic.kind) computes on the CPU here",
                    "use --device cpu");
}

void ExecutionOptions::repeat_stock(const std::string& environment) const {
  if (capability.empty() && std::getenv("ATEN_CPU_CAPABILITY") == nullptr)
    process::require_variables(process::recorded_variables(environment));
  const int recorded = archive::recorded_threads(environment);
  if (threads == 0 && recorded > 0) kernels::set_thread_count(recorded);
}

train::Execution ExecutionOptions::execution() const { return {parse_order(grain_order), usable_device(device)}; }

std::vector<std::string> ExecutionOptions::words() const {
  return {"--isa", isa, "--device", device, "--grain-order", grain_order};
}

std::string ExecutionOptions::device_description() const {
  const c10::Device used = usable_device(device);
  if (used.is_cpu()) return "cpu";
  return fmt::format("{} ({})", used.str(), aten::device_names().at(static_cast<std::size_t>(used.index())));
}

}  // namespace isobit::train
