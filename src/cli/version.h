// What this program is, in one line: for --version and for records.
#pragma once

#include <string>

namespace isobit::cli {

// "isobit 0.1.0 (contract isobit-0.1, torch 2.13.0+cpu, gcc 12.2.0)"
[[nodiscard]] std::string version_text();

}  // namespace isobit::cli
