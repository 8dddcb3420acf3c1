// The runs of a study as an array of jobs under Slurm, each under its name (isobit run --once), by which the study
// finds the record. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "study/cells.h"
#include "study/study_file.h"

namespace isobit::study {

struct StudySubmission {
  std::string time, partition;  // as isobit submit takes them; "": the cluster's
  std::int64_t at_once = 0;     // 0: as many as fit
  bool dry_run = false;         // prints the script, and submits nothing
  bool json = false;            // on stdout one object: the job, or the script
};

inline constexpr std::size_t kMostSubmitted = 1000;  // what a Slurm takes that nobody configured otherwise

// Submits the cells that wait, the first thousand of them. `folder`: STUDY, on a file system that the nodes share.
// UserError where a factor cannot be had there, or Slurm refuses.
int submit_study(const study::Study& study, const std::vector<study::Cell>& cells, const std::filesystem::path& folder,
                 const std::string& experiment, const StudySubmission& submission);

}  // namespace isobit::study
