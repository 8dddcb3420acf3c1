// What a person sees while several workers train: a line for the job and one for each worker, rewritten on a terminal;
// elsewhere one line every ten seconds. Metrics as one process shows them. One thread per object.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "scale/host.h"

namespace isobit::jobs {

class WorkersProgress {
 public:
  // `metrics`: the log that the recorder writes.
  WorkersProgress(std::int64_t done, std::int64_t steps, std::filesystem::path metrics);
  ~WorkersProgress();
  WorkersProgress(const WorkersProgress&) = delete;
  WorkersProgress& operator=(const WorkersProgress&) = delete;

  void show(const scale::HostView& view, bool last = false);
  // A line that stays.
  void say(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  struct Rate {
    std::int64_t grains = 0;
    double per_second = 0;
  };
  void clear_lines();
  void show_metrics();

  std::int64_t first_, steps_, begun_at_ = -1;
  std::filesystem::path metrics_;
  std::uintmax_t read_ = 0;
  bool terminal_;
  int lines_ = 0;
  Clock::time_point start_{}, shown_{};
  std::map<scale::WorkerId, Rate> rates_;
};

}  // namespace isobit::jobs
