#include "study/study_progress.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "process/duration.h"
#include "process/terminal_line.h"

namespace isobit::study {

StudyProgress::StudyProgress(std::int64_t done_before) : before_(done_before), terminal_(process::rewrites_lines()) {}

StudyProgress::~StudyProgress() {
  if (line_open_) fmt::print(stderr, "\r\033[K");
}

void StudyProgress::show(const StudyCounts& counts) {
  if (!terminal_) return;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const std::int64_t made = counts.done - before_;
  std::string rate = "  first runs under way";
  if (made > 0) {
    const double each = elapsed / static_cast<double>(made);
    rate = fmt::format("  {:.1f} a minute  {} left", 60 / each,
                       process::duration(each * static_cast<double>(counts.cells - counts.done)));
  }
  fmt::print(stderr, "\r\033[K{}",
             process::fitted(fmt::format("{}/{} runs{}  {} running{}", counts.done, counts.cells, rate, counts.running,
                                         counts.failed > 0 ? fmt::format(", {} failed", counts.failed) : "")));
  std::fflush(stderr);
  line_open_ = true;
}

}  // namespace isobit::study
