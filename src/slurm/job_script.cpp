#include "slurm/job_script.h"

#include <fmt/format.h>

#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::slurm {
namespace {

using archive::UserError;

std::string quoted_all(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  return line;
}

// A value in a line "#SBATCH ...": Slurm takes the line apart by rules of its own, and % begins a pattern.
void require_plain(const std::string& path) {
  if (path.find_first_of("\"'\\%#\n\r\t") != std::string::npos)
    throw UserError(path, "has a character that Slurm takes for something else", "name another folder with --runs");
}

std::string option(const char* name, std::int64_t value, const char* unit = "") {
  return value == 0 ? "" : fmt::format("#SBATCH --{}={}{}\n", name, value, unit);
}

// What each group of nodes repeats.
std::string group_options(const JobRequest& request, const JobRequest::Group& group) {
  std::string text = option("nodes", request.nodes) + option("ntasks-per-node", group.workers) +
                     option("cpus-per-task", request.cpus) + option("mem", request.memory, "M");
  if (group.gpu) {
    text += fmt::format("#SBATCH --gpus-per-node={}{}{}\n", group.gpu->type, group.gpu->type.empty() ? "" : ":",
                        group.gpu->count);
  }
  if (!request.partition.empty()) text += fmt::format("#SBATCH --partition={}\n", request.partition);
  if (request.seconds > 0) text += fmt::format("#SBATCH --time={}\n", format_time(request.seconds));
  return text;
}

std::string options(const JobScript& job) {
  const JobRequest& request = job.request;
  std::string text = fmt::format("#SBATCH --job-name={}\n", request.name);
  // Slurm's own name for each job: of an array, its index, too.
  require_plain(job.folder);
  text += fmt::format("#SBATCH --output=\"{}/{}.log\"\n", job.folder, request.array.empty() ? "%j" : "%A_%a");
  text += "#SBATCH --open-mode=append\n#SBATCH --requeue\n";
  text += fmt::format("#SBATCH --signal=B:USR1@{}\n", job.notice);
  if (!request.array.empty()) {
    text += fmt::format("#SBATCH --array=0-{}", request.array.size() - 1);
    text += request.at_once > 0 ? fmt::format("%{}\n", request.at_once) : "\n";
  }
  bool first = true;
  for (const JobRequest::Group& group : request.groups()) {
    text += (first ? "" : "#SBATCH hetjob\n") + group_options(request, group);
    first = false;
  }
  return text;
}

std::string array_cases(const JobScript& job) {
  const JobRequest& request = job.request;
  if (request.array.empty()) return "";
  std::string text = "# The runs of the array.\ncase $SLURM_ARRAY_TASK_ID in\n";
  for (std::size_t index = 0; index < request.array.size(); ++index) {
    std::vector<std::string> words;
    for (const std::string& setting : request.array[index]) words.insert(words.end(), {"--set", setting});
    if (!job.array_words.empty())
      words.insert(words.end(), job.array_words.at(index).begin(), job.array_words.at(index).end());
    const std::string name = job.array_names.empty() ? "" : fmt::format(" name={};", quoted(job.array_names.at(index)));
    text += fmt::format("  {}){} set -- {} ;;\n", index, name, quoted_all(words));
  }
  return text + "  *) echo \"isobit: the array has no run $SLURM_ARRAY_TASK_ID\" >&2; exit 2 ;;\nesac\n";
}

std::string container_check(const Container& container) {
  if (container.image.empty()) return "";
  const auto slash = container.image.rfind('/');
  return fmt::format(
      "# The image that was submitted, and no other; its digest goes into the record.\n"
      "printf '%s  %s\\n' {0} {1} | sha256sum --check --status ||\n"
      "  {{ echo {2} >&2; exit 2; }}\n"
      "export ISOBIT_CONTAINER={3}\n",
      container.sha256, quoted(container.image),
      quoted("isobit: " + container.image + ": is another image than was submitted (submit again)"),
      quoted(container.image.substr(slash + 1) + " sha256:" + container.sha256));
}

// srun's own words: whoever dies, the others go on.
std::vector<std::string> srun(const JobRequest& request) {
  std::vector<std::string> words = {"srun", "--export=ALL", "--kill-on-bad-exit=0"};
  const auto groups = request.groups().size();
  if (groups > 1) words.push_back(fmt::format("--het-group=0-{}", groups - 1));
  if (request.cpus > 0) words.push_back(fmt::format("--cpus-per-task={}", request.cpus));
  return words;
}

// Behind `words`, what computes the run.
std::string command(const JobScript& job, std::vector<std::string> words) {
  const JobRequest& request = job.request;
  if (!job.container.image.empty()) {
    words.insert(words.end(), {job.container.runner, "exec"});
    if (!request.gpus.empty()) words.emplace_back("--nv");
    words.insert(words.end(), {"--bind", job.runs, "--pwd", job.working_folder, job.container.image});
  }
  words.insert(words.end(), {job.program, "run", job.folder + "/experiment.toml", "--runs", job.runs});
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  return quoted_all(words) + " --once \"$name\"";
}

constexpr const char* kNotice =
    R"(# Before the time limit Slurm signals this shell. The workers stop after their step, with a checkpoint, and the job goes
# back into the queue; a job that somebody cancels gets no such signal, and ends.
at_limit=
trap 'at_limit=yes; scancel --signal=TERM "$SLURM_JOB_ID"' USR1
)";

constexpr const char* kWait = R"(worker=$!
code=0
while :; do
  wait "$worker"
  code=$?
  kill -0 "$worker" 2>/dev/null || break  # else the signal ended the wait
done
)";

constexpr const char* kRequeue = R"(if [ -n "$at_limit" ] && [ "$code" -ge 128 ]; then
  echo "isobit: the time limit is near: requeued" >&2
  scontrol requeue "$SLURM_JOB_ID" && sleep 600  # Slurm ends this shell
fi
)";

}  // namespace

std::string quoted(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string write_script(const JobScript& job) {
  const bool several = job.request.all_workers() > 1;
  // A job id is used again some day; the token is not.
  const char* own_id = job.request.array.empty() ? "$SLURM_JOB_ID" : "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID";
  std::string text = "#!/bin/bash\n# Made by isobit submit (docs/guides/slurm.md).\n" + options(job) + "\n";
  text += "unset ISOBIT_JOB_KEY\n";
  text += fmt::format("cd {} || exit 2\n", quoted(job.working_folder));
  text += fmt::format("name=$SLURM_CLUSTER_NAME/{}/{}  # of the run: the same after a requeue\n", own_id, job.token);
  if (several) {
    text +=
        fmt::format("key={}/{}\n", quoted(job.folder), job.request.array.empty() ? "key" : "key-$SLURM_ARRAY_TASK_ID");
  }
  text += array_cases(job) + container_check(job.container) + kNotice + "\n";
  text += command(job, srun(job.request)) + (several ? " --key-file \"$key\"" : "") + " \"$@\" &\n" + kWait;
  if (several) {
    text +=
        "# srun tells of a worker that died, too, where the others have finished the run.\n"
        "[ \"$code\" = 0 ] || ! " +
        command(job, {}) + " \"$@\" --finished >/dev/null 2>&1 || code=0\n";
  }
  text += kRequeue;
  if (several) text += "[ \"$code\" != 0 ] || rm -f \"$key\"  # a run that ended otherwise may be requeued by hand\n";
  return text + "exit \"$code\"\n";
}

}  // namespace isobit::slurm
