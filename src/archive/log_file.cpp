#include "archive/log_file.h"

#include <utility>

namespace isobit::archive {
namespace {

constexpr std::size_t kMost = 1 << 14;
constexpr std::chrono::milliseconds kLongest{250};

}  // namespace

void LogFile::append(const std::string& text) {
  waiting_ += text;
  const auto now = Clock::now();
  if (waiting_.size() >= kMost || now - written_ >= kLongest) write(now);
}

void LogFile::write(Clock::time_point now) {
  if (waiting_.empty()) return;
  lock_.require_held_lately();
  const std::string text = std::exchange(waiting_, {});  // gone where the file cannot be written: the run stops there
  file_.append(text);
  hash_.update(text);
  written_ = now;
}

}  // namespace isobit::archive
