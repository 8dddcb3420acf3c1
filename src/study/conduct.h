// `isobit study`: the runs of a study made or gathered, and what they say together written beside them.
//
// A study's folder belongs to one process at a time (a lock); a killed study resumes with what its runs' records say.
#pragma once

#include <cstdint>
#include <string>

#include "study/study_submit.h"

namespace isobit::study {

struct StudyOptions {
  std::string file, out, program;
  std::int64_t jobs = 0;
  bool json = false, dry_run = false, resume = false, gather = false, submit = false;
  StudySubmission submission;
};

// Prints the result. The process's exit code: 0 good, 1 a judged difference or a failed run, 2 cannot be told, 130
// interrupted. Throws archive::UserError for bad input. One at a time.
[[nodiscard]] int run_study(const StudyOptions& options);

}  // namespace isobit::study
