// --device, --threads, --isa, --grain-order, --capability: the options of the commands that compute.
#pragma once

#include "cli/command.h"
#include "cli/options.h"
#include "train/execution_options.h"

namespace isobit::cli {

// `options` must live until the command line is parsed.
void declare_execution(OptionSet& app, train::ExecutionOptions& options);

// Adds the options of where a run executes (process/execution_place.h). The action runs the same command line there
// where one was given, else what it was given.
[[nodiscard]] Action at_place(OptionSet& app, Action action);

}  // namespace isobit::cli
