#include "cli/command.h"

#include <algorithm>

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
  const auto later = std::upper_bound(all.begin(), all.end(), command.rank,
                                      [](int rank, const Command& other) { return rank < other.rank; });
  all.insert(later, std::move(command));
}

}  // namespace isobit::cli
