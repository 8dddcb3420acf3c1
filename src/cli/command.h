// Subcommands: each lives in a file of its own and adds itself here.
//
//   const CommandRegistration registration({.name = "log", .summary = "...", .example = "isobit log --json",
//                                           .group = Group::see, .rank = 30,
//                                           .declare = [](OptionSet& options) -> Action { ... }});
//
// declare() adds options to the subcommand and returns what runs after parsing: the process's exit code
// (0 good, 1 a judged difference or a failed run, 2 bad input; 130 interrupted). Bad input is thrown as
// archive::UserError and printed by main as one line on stderr. Registration happens before main; no other thread runs
// then.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace isobit::cli {

using Action = std::function<int()>;

// The headings of isobit --help, in their order.
enum class Group { train, prove, see, scale, data, applications };

struct Command {
  std::string name, summary;
  std::string example;  // one or more lines, shown at the end of --help
  Group group = Group::applications;
  int rank = 0;                              // position within the group
  std::string without_torch_only_with = {};  // an option with which the command needs no torch; "": it never needs any
  std::function<Action(OptionSet&)> declare;
};

// Sorted by group and rank.
[[nodiscard]] const std::vector<Command>& commands();

class CommandRegistration {
 public:
  explicit CommandRegistration(Command command);
};

}  // namespace isobit::cli
