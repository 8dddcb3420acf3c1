// Prints what a task knows of its job, as one line: a stand-in for a worker, for slurm_local_test.py.
#include <cstdio>
#include <string>

#include "archive/user_error.h"
#include "slurm/allocation.h"

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

}  // namespace

int main() try {
  const auto task = isobit::slurm::allocation();
  if (!task) return 3;
  std::printf(
      "task=%ld/%ld local=%ld/%ld node=%s nodes=%s first=%s host=%s launcher=%s cpus=%ld memory=%ld gpus=%s job=%s "
      "restarts=%ld\n",
      task->task, task->tasks, task->local_task, task->local_tasks, task->node.c_str(), joined(task->nodes).c_str(),
      task->first_node.c_str(), task->host.c_str(), task->launcher.c_str(), task->cpus, task->memory >> 20,
      joined(task->gpus).c_str(), task->job.c_str(), task->restarts);
  return 0;
} catch (const isobit::archive::UserError& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
