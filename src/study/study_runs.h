// The runs of a study: side by side within cores and memory, each a child `isobit run --once`, so that none is made
// twice, and a study that was killed resumes with what its runs' records say.
//
// A cell that fails is noted and does not stop the others; one whose loss is not finite is not tried again. States are
// in STUDY/cells.json, rewritten whole. Ctrl-C goes on to the children, which end after their step with a checkpoint.
// Errors of the study's own files are UserError. One thread, which lives as long as the object.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "archive/record_types.h"
#include "study/cells.h"
#include "study/recorded_cell.h"
#include "study/study_file.h"

namespace isobit::study {

struct StudySettings {
  std::filesystem::path folder;  // STUDY
  std::string program;           // what makes the runs
  std::string given;             // the text of the experiment file, or of the script
  std::int64_t jobs = 0;         // at a time, at most; 0: as many as cores and memory take
};

class StudyRuns {
 public:
  StudyRuns(const study::Study& study, std::vector<study::Cell>& cells, StudySettings settings);

  // Takes over what earlier calls finished, from the records. UserError where a record has the id of a cell's run and
  // is another run.
  void find_finished();
  // Whether all cells were tried: false where `stop` came first.
  [[nodiscard]] bool execute(const std::atomic<bool>& stop);

  [[nodiscard]] std::filesystem::path runs() const { return settings_.folder / "runs"; }
  // What the finished runs say of themselves, "test.accuracy"; after execute or find_finished.
  [[nodiscard]] const std::set<std::string>& measured() const { return measured_; }
  [[nodiscard]] std::int64_t jobs_at_once() const;

 private:
  void work(const std::atomic<bool>& stop);
  study::Cell* next_cell();
  void run_cell(study::Cell& cell, const std::atomic<bool>& stop);
  void run_script(study::Cell& cell, const std::atomic<bool>& stop);
  [[nodiscard]] std::vector<std::string> words_of(const study::Cell& cell) const;
  // What the record says; false where it is not finished.
  bool take_result(study::Cell& cell, const archive::RunSummary& summary);
  [[nodiscard]] std::int64_t cores_of(const study::Cell& cell) const;
  void save(bool now);

  const study::Study& study_;
  std::vector<study::Cell>& cells_;
  StudySettings settings_;
  study::RecordedCells records_;
  std::int64_t cores_;
  std::uint64_t free_memory_;

  std::mutex mutex_;  // guards what follows, and the cells
  std::condition_variable changed_;
  std::size_t next_ = 0;
  std::int64_t running_ = 0, cores_taken_ = 0;
  double saved_ = 0;
  std::exception_ptr problem_;
  std::mutex measured_mutex_;
  std::set<std::string> measured_;  // guarded by the line above
};

}  // namespace isobit::study
