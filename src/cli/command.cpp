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

std::string message_of(const std::exception& error) {
  const std::string message = error.what();
  return message.substr(0, message.find("\nException raised from"));
}

CommandRegistration::CommandRegistration(Command command) {
  std::vector<Command>& all = registered();
  const auto later = std::upper_bound(all.begin(), all.end(), command.rank,
                                      [](int rank, const Command& other) { return rank < other.rank; });
  all.insert(later, std::move(command));
}

}  // namespace isobit::cli
