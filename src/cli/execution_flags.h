// --device, --threads, --isa, --grain-order, --capability: the options of the commands that compute.
#pragma once

#include "cli/options.h"
#include "train/execution_options.h"

namespace isobit::cli {

// `options` must live until the command line is parsed.
void declare_execution(OptionSet& app, train::ExecutionOptions& options);

}  // namespace isobit::cli
