#include "cli/command.h"

#include <algorithm>
#include <utility>

namespace isobit::cli {
namespace {

std::vector<Command>& registered() {
  static std::vector<Command> all;
  return all;
}

}  // namespace

const std::vector<Command>& commands() { return registered(); }

CommandRegistration::CommandRegistration(Command command) {
  std::vector<Command>& all = registered();
  const auto later = std::upper_bound(all.begin(), all.end(), command, [](const Command& one, const Command& other) {
    return std::pair(one.group, one.rank) < std::pair(other.group, other.rank);
  });
  all.insert(later, std::move(command));
}

}  // namespace isobit::cli
