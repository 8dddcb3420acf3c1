#include "archive/error_message.h"

#include <algorithm>
#include <string_view>

namespace isobit::archive {

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

}  // namespace isobit::archive
