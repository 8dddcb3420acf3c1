#include "study/study_submit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "archive/user_error.h"
#include "slurm/host_list.h"
#include "slurm/job_folder.h"
#include "slurm/job_script.h"
#include "slurm/programs.h"

namespace isobit::study {
namespace {

namespace fs = std::filesystem;
using archive::UserError;
using study::Cell;
using study::CellState;

void require_submittable(const study::Study& study) {
  if (study.name[0] == '-')
    throw UserError("--submit", "Slurm takes no name that begins with a dash", "rename the study");
}

std::string threads_of(const study::Study& study, const Cell& cell) {
  const std::string level = study::option_of(cell, "threads");
  return level.empty() ? std::to_string(study.threads) : level;
}

slurm::JobScript job_of(const study::Study& study, const std::vector<const Cell*>& waiting, const fs::path& folder,
                        const StudySubmission& submission) {
  slurm::JobScript job;
  job.request.name = study.name;
  job.request.partition = slurm::parse_partition(submission.partition);
  if (!submission.time.empty()) job.request.seconds = slurm::parse_time_limit(submission.time);
  job.request.memory = study.memory;
  job.request.at_once = submission.at_once;
  for (const Cell* cell : waiting) {
    const std::string threads = threads_of(study, *cell);
    const std::string workers = study::option_of(*cell, "workers");
    const std::int64_t cpus =
        std::strtoll(threads.c_str(), nullptr, 10) * (workers.empty() ? 1 : std::strtoll(workers.c_str(), nullptr, 10));
    job.request.cpus = std::max(job.request.cpus, cpus);
    job.request.array.push_back(study::overrides_of(study, *cell));
    job.array_names.push_back(study::once_name(study, *cell));
    job.array_words.push_back({"--threads", threads});
    for (const char* option : {"isa", "device", "workers", "capability"}) {
      const std::string level = study::option_of(*cell, option);
      if (!level.empty())
        job.array_words.back().insert(job.array_words.back().end(), {std::string("--") + option, level});
    }
  }
  job.program = fs::read_symlink("/proc/self/exe").string();
  job.working_folder = fs::current_path().string();
  job.runs = fs::absolute(folder / "runs").lexically_normal().string();
  job.token = slurm::make_token();
  job.folder = job.runs + "/" + slurm::kJobsFolder + "/" + study.name + "-" + job.token;
  job.notice = slurm::notice_before_limit(job.request.seconds, std::nullopt);
  return job;
}

}  // namespace

int submit_study(const study::Study& study, const std::vector<Cell>& cells, const fs::path& folder,
                 const std::string& experiment, const StudySubmission& submission) {
  require_submittable(study);
  std::vector<const Cell*> waiting;
  for (const Cell& cell : cells) {
    if (cell.state == CellState::waiting && waiting.size() < kMostSubmitted) waiting.push_back(&cell);
  }
  const auto all =
      std::count_if(cells.begin(), cells.end(), [](const Cell& c) { return c.state == CellState::waiting; });
  if (waiting.empty()) throw UserError("--submit", "no run is left to make", "see the results with --gather");
  slurm::JobScript job = job_of(study, waiting, folder, submission);
  if (slurm::has_slurm() || !submission.dry_run) slurm::check(job.request, slurm::read_cluster(slurm::call_slurm));
  const std::string script = slurm::write_script(job);
  if (submission.dry_run) {
    if (submission.json) fmt::print("{}\n", nlohmann::ordered_json{{"script", script}}.dump());
    if (!submission.json) fmt::print("{}", script);
    return 0;
  }
  slurm::JobFolder files(job.folder);
  files.write("experiment.toml", experiment);
  files.write("job.sh", script);
  std::string answer = slurm::call_slurm({"sbatch", "--parsable", (files.path() / "job.sh").string()});
  answer = answer.substr(0, answer.find_first_of(";\n"));
  std::int64_t number = 0;
  if (!slurm::parse_count(answer, number)) throw UserError("sbatch", "answered '" + answer + "'", "see squeue --me");
  files.keep();
  if (submission.json) {
    const nlohmann::ordered_json result{{"job", answer}, {"runs", waiting.size()}, {"folder", job.folder}};
    fmt::print("{}\n", result.dump());
  } else {
    fmt::print("job {}\n", answer);
  }
  fmt::print(stderr, "{} of {} waiting runs submitted; when they are done: isobit study FILE --out {} --gather\n",
             waiting.size(), all, folder.string());
  return 0;
}

}  // namespace isobit::study
