// Where a run was executed, as JSON for its record: code version and build, contract version, hardware,
// library versions and an allowlist of environment variables. No secrets, no user names, no home paths, no
// host name. Thread-safe as far as the environment is not changed meanwhile.
#pragma once

#include <map>
#include <string>

#include "contract/platform.h"

namespace isobit::archive {

// `extra` is added under "run": threads, isa, torch's version, ... `contract`: what computes, the contract or stock
// PyTorch.
[[nodiscard]] std::string environment_json(const std::map<std::string, std::string>& extra = {},
                                           const std::string& contract = contract::kContractVersion);

// "isobit 0.1.0 (1a2b3c4, g++ 12.2.0, release)"
[[nodiscard]] std::string program_version();

// "AMD EPYC 9554 64-Core Processor", as the system says; empty where it does not.
[[nodiscard]] std::string cpu_name();

}  // namespace isobit::archive
