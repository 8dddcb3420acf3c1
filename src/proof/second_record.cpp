#include "proof/second_record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "archive/printable.h"
#include "archive/tar_file.h"
#include "archive/user_error.h"
#include "process/terminal_line.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr std::size_t kLongestLine = 64;

// The N of "WORD N".
std::optional<std::int64_t> number_after(std::string_view line, std::string_view word) {
  if (!line.starts_with(word) || line.size() <= word.size() + 1 || line[word.size()] != ' ') return {};
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(line.data() + word.size() + 1, line.data() + line.size(), value);
  if (error != std::errc() || end != line.data() + line.size()) return {};
  return value;
}

// Its errors name what was executed, not a folder that is gone when they are read.
archive::RunRecord opened(const fs::path& folder) try {
  return archive::RunRecord::open(folder);
} catch (const UserError& error) {
  throw UserError("",
                  fmt::format("it left a record that cannot be read: {}: {}",
                              fs::path(error.place()).filename().string(), error.problem()),
                  "");
}

// The files of a trace; whether they are one is found out by their reader.
void take_trace(const fs::path& from, const fs::path& to) {
  for (const char* name : {kTraceFile, kTraceValues}) {
    if (archive::is_there(from / name)) fs::rename(from / name, to / name);
  }
}

std::string ending(std::int64_t code) {
  return code < 0 ? fmt::format("was stopped by signal {}", -code) : fmt::format("ended with exit code {}", code);
}

}  // namespace

Reports::Reports(const fs::path& folder, std::uint64_t most) : folder_(folder), most_(most) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error) most_ = std::min<std::uint64_t>(most_, space.available / 3);
}

bool Reports::hear(std::string_view bytes) {
  while (!bytes.empty() && !tar_) {
    const std::size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, std::min(end, kLongestLine + 1)));
    if (line_.size() > kLongestLine) return false;
    if (end == std::string_view::npos) return true;
    bytes.remove_prefix(end + 1);
    if (!hear_line(line_)) return false;
    line_.clear();
  }
  return bytes.empty() || keep(bytes);
}

bool Reports::hear_line(std::string_view line) {
  if (const auto step = number_after(line, "step")) {
    step_ = *step;
  } else if (const auto code = number_after(line, "ended")) {
    ended_ = *code;
  } else if (const auto records = number_after(line, "records")) {
    records_ = *records;
  } else if (line == "record" && ended_) {
    tar_.emplace(folder_ / "record.tar");
  } else {
    return false;
  }
  return true;
}

bool Reports::keep(std::string_view bytes) {
  if (tar_->size() + bytes.size() > most_) {
    too_large_ = true;
    return false;
  }
  tar_->append(bytes);
  return true;
}

fs::path Reports::unpack(bool traced) const {
  if (records_ != 1 || !tar_) throw UserError("", fmt::format("it left {} records instead of one", records_), "");
  const fs::path folder = folder_ / "second";
  archive::make_folders(folder);
  std::string id;
  try {
    id = archive::unpack_tar(folder_ / "record.tar", folder);
  } catch (const UserError& error) {
    throw UserError("", "it left a record that cannot be read: " + error.problem(), "");
  }
  if (traced) take_trace(folder / id, folder_);
  return folder / id;
}

archive::RunRecord Reports::record(bool traced) const { return opened(unpack(traced)); }

archive::RunRecord only_record(const fs::path& runs) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(runs, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with('.')) found.push_back(it->path());
  }
  if (found.size() != 1) throw UserError("", fmt::format("it left {} records instead of one", found.size()), "");
  return opened(found[0]);
}

namespace {

// What `read` makes of what it left; nothing where it was interrupted.
template <class Read>
auto run_and_read(const Again& again, process::ChildRequest child, std::string& printed, const Read& read)
    -> std::optional<decltype(read(std::declval<const Reports&>()))> {
  Reports reports(again.work, again.limits.disk);
  process::ChildResult result;
  {
    std::optional<AgainProgress> progress;
    if (again.reached == nullptr) progress.emplace(again.steps);
    child.report = [&](std::string_view bytes) {
      const bool heard = reports.hear(bytes);
      if (again.reached != nullptr) *again.reached = std::max(again.reached->load(), reports.step());
      return heard;
    };
    if (progress) child.tick = [&] { progress->show(reports.step()); };
    child.stop = &again.stop;
    result = process::run_child(child);
  }
  printed = archive::printable_lines(result.output);
  if (result.interrupted) return {};
  try {
    const std::string limit = reports.too_large() ? "disk" : result.limit;
    if (!limit.empty()) {
      const LimitText text = describe_limit(again.limits, limit);
      throw UserError(again.place.name, text.problem + " and was ended", text.remedy);
    }
    if (!reports.ended()) throw script_failure(again.place, "it " + result.how_it_ended(), result.output);
    try {
      return read(reports);
    } catch (const UserError& error) {
      throw script_failure(again.place, fmt::format("{}; {}", ending(*reports.ended()), error.problem()),
                           result.output);
    }
  } catch (const UserError&) {
    if (again.reached == nullptr) show_script_output(result.output);
    throw;
  }
}

}  // namespace

std::optional<archive::RunRecord> run_again(const Again& again, process::ChildRequest child, std::string& printed) {
  return run_and_read(again, std::move(child), printed, [&](const Reports& reports) {
    if (again.place.sandboxed) return reports.record(again.traced);
    if (again.traced) take_trace(again.work / "runs" / ".trace", again.work);
    return only_record(again.work / "runs");
  });
}

std::optional<fs::path> run_part(const Again& again, process::ChildRequest child, std::string& printed) {
  return run_and_read(again, std::move(child), printed, [](const Reports& reports) { return reports.unpack(false); });
}

AgainProgress::AgainProgress(std::int64_t steps) : steps_(steps), terminal_(process::rewrites_lines()) {}

AgainProgress::~AgainProgress() {
  if (open_) fmt::print(stderr, "\r\033[K");
}

void AgainProgress::show(std::int64_t step) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (first_ == 0 && step > 0) {
    first_ = step;
    start_ = now;
  }
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = first_ > 0 && seconds > 0 ? static_cast<double>(step - first_) / seconds : 0;
  std::string text = fmt::format("step {} of {}", step, steps_);
  if (rate > 0) {
    const auto left = static_cast<std::int64_t>(static_cast<double>(std::max<std::int64_t>(0, steps_ - step)) / rate);
    text += fmt::format("  {:.1f} steps/s  {}:{:02} left", rate, left / 60, left % 60);
  }
  fmt::print(stderr, "\r\033[K{}", process::fitted(text));
  std::fflush(stderr);
  open_ = true;
}

}  // namespace isobit::proof
