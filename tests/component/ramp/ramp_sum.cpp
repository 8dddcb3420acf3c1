// isobit ramp-sum: a command that computes with torch, so it stands in its library.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <memory>

#include "cli/command.h"

namespace isobit::cli {
namespace {

Action declare_ramp_sum(OptionSet& app) {
  auto steps = std::make_shared<std::int64_t>(3);
  app.add("--steps", *steps, "How many").type("N").at_least(1).show_default();
  return [steps] {
    fmt::print("{}\n", at::arange(*steps, at::kLong).sum().item<std::int64_t>());
    return 0;
  };
}

const CommandRegistration ramp_sum_command({.name = "ramp-sum",
                                            .summary = "Add what ramp counts",
                                            .example = "isobit ramp-sum --steps 5",
                                            .group = Group::applications,
                                            .rank = 11,
                                            .declare = declare_ramp_sum});

}  // namespace
}  // namespace isobit::cli
