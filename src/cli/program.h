// A command line from its first word to its exit code: parses, runs one subcommand, turns errors into one line.
#pragma once

namespace isobit::cli {

// Over the commands that are linked beside it (command.h). The process's exit code: 0 good, 1 a judged difference or a
// failed run, 2 bad input, 130 interrupted. Throws nothing. Call once per process, before other threads start.
int program(int argc, char** argv);

}  // namespace isobit::cli
