#include "cli/command.h"

#include <algorithm>
#include <string_view>

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
  constexpr std::string_view kAsked = "DefaultCPUAllocator: can't allocate memory: you tried to allocate ";
  if (const std::size_t at = message.find(kAsked); at != std::string::npos) {
    const std::string rest = message.substr(at + kAsked.size());
    return "out of memory: " + rest.substr(0, rest.find_first_not_of("0123456789")) +
           " bytes were asked for at once (use a smaller model, batch or grain, or a machine with more)";
  }
  // Where PyTorch was: a backtrace, told in one of two ways.
  return message.substr(0, std::min(message.find("\nException raised from"), message.find("\nframe #0:")));
}

CommandRegistration::CommandRegistration(Command command) {
  std::vector<Command>& all = registered();
  const auto later = std::upper_bound(all.begin(), all.end(), command.rank,
                                      [](int rank, const Command& other) { return rank < other.rank; });
  all.insert(later, std::move(command));
}

}  // namespace isobit::cli
