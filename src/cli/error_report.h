// What a command that fails says: one line on stderr, and with --json one object on stdout, {"error": "..."}.
//
// No state; one thread.
#pragma once

#include <string>

namespace isobit::cli {

// Whether the line has --json before a "--", after which words are another program's.
[[nodiscard]] bool asks_for_json(int argc, char** argv);

// `message` without "isobit: " at its beginning. The exit code, 2: never 1, which is a verdict.
int report_error(const std::string& message, bool json);

}  // namespace isobit::cli
