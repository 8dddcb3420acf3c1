#include "process/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace isobit::process {

bool rewrites_lines() {
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) != 0 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::string fitted(const std::string& text, std::size_t width) {
  if (width == 0) return text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
    if (begins && ++shown == width) return text.substr(0, i);  // the last column is left: some terminals wrap there
  }
  return text;
}

std::string fitted(const std::string& text) {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
  return fitted(text, known ? size.ws_col : 0);
}

}  // namespace isobit::process
