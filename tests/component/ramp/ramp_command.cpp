// isobit ramp: a command that needs no torch.
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"

namespace isobit::cli {
namespace {

Action declare_ramp(OptionSet& app) {
  auto steps = std::make_shared<std::int64_t>(3);
  app.add("--steps", *steps, "How many").type("N").at_least(1).show_default();
  return [steps] {
    for (std::int64_t i = 0; i < *steps; ++i) fmt::print("{}\n", i);
    return 0;
  };
}

const CommandRegistration ramp_command({.name = "ramp",
                                        .summary = "Count upwards",
                                        .example = "isobit ramp --steps 5",
                                        .group = Group::applications,
                                        .rank = 10,
                                        .declare = declare_ramp});

}  // namespace
}  // namespace isobit::cli
