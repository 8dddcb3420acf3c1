// What a person sees while a study's runs are made: one line on a terminal, rewritten; nothing elsewhere. One thread.
#pragma once

#include <chrono>
#include <cstdint>

namespace isobit::study {

struct StudyCounts {
  std::int64_t cells = 0, done = 0, failed = 0, running = 0;  // done: finished or failed
};

class StudyProgress {
 public:
  explicit StudyProgress(std::int64_t done_before);
  ~StudyProgress();
  StudyProgress(const StudyProgress&) = delete;
  StudyProgress& operator=(const StudyProgress&) = delete;

  void show(const StudyCounts& counts);

 private:
  std::int64_t before_;
  bool terminal_, line_open_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace isobit::study
