// What a mistyped command line is told: one line that names the option or argument, and what belongs there.
//
// No state; thread-safe.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/command.h"

namespace isobit::cli {

// How isobit --help heads a group of commands.
[[nodiscard]] std::string heading(Group group);

// The end of isobit --help: the commands that the Python package answers itself, components that were not built, and an
// example.
[[nodiscard]] std::string program_footer();

// A first word that is no subcommand: throws archive::UserError that suggests the nearest one, or says where the Python
// package's commands are.
void check_first_word(int argc, char** argv);

// The message of a parse error: `app` is the subcommand that was meant, `command` nullptr where that is the program
// itself.
[[nodiscard]] std::string usage_message(const CLI::App& app, const Command* command, const CLI::ParseError& error);

}  // namespace isobit::cli
