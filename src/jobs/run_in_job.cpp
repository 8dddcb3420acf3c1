#include "jobs/run_in_job.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "archive/files.h"
#include "archive/runs.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "jobs/run_workers.h"
#include "jobs/worker_processes.h"
#include "kernels/threads.h"
#include "process/stop_signal.h"
#include "scale/job_key.h"
#include "slurm/job_folder.h"
#include "slurm/programs.h"

namespace isobit::jobs {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool is_of_this_machine(const addrinfo& info) {
  const int descriptor = ::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  const bool own = ::bind(descriptor, info.ai_addr, info.ai_addrlen) == 0;
  ::close(descriptor);
  return own;
}

// The first address of the name that is this machine's and that others can reach: many systems give a machine's own
// name an address of its loopback. "" where there is none.
std::string own_address(const std::string& name) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (name.empty() || ::getaddrinfo(name.c_str(), "0", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> infos(found, &::freeaddrinfo);
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    if (is_loopback(*info->ai_addr) || !is_of_this_machine(*info)) continue;
    char text[NI_MAXHOST] = "";
    if (::getnameinfo(info->ai_addr, info->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      return info->ai_family == AF_INET6 ? fmt::format("[{}]", text) : text;
  }
  return "";
}

// What task 0 listens on.
std::string host_address(const slurm::Allocation& task) {
  if (task.nodes.size() == 1) return "127.0.0.1";
  for (const std::string& name : {task.host, task.launcher}) {
    if (std::string address = own_address(name); !address.empty()) return address;
  }
  const std::string known = slurm::address_of(task.first_node, slurm::call_slurm);
  if (std::string address = own_address(known); !address.empty()) return address;
  throw UserError(task.first_node, "has no address that this job's other nodes could reach, as far as it knows",
                  "set ISOBIT_JOB_HOST to its address in the network of the cluster");
}

fs::path address_file(const RunRequest& request, const slurm::Allocation& task) {
  const std::string name = fmt::format("{}.{} restart {}", slurm::run_name_of(task), task.step, task.restarts);
  return request.runs / slurm::kJobsFolder / ("address-" + archive::sha256(name).substr(0, 16));
}

// Is there as long as the job's host.
class Published {
 public:
  explicit Published(fs::path file) : file_(std::move(file)) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  ~Published() {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }
  void publish(const std::string& address) const {
    archive::make_folders(file_.parent_path());
    archive::write_file(file_, address + "\n");
  }

 private:
  fs::path file_;
};

std::string await_address(const fs::path& file, const slurm::Allocation& task) {
  constexpr std::chrono::seconds kPatience{120};  // a network file system shows a new file late
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!archive::is_there(file)) {
    if (std::chrono::steady_clock::now() > until)
      throw UserError(file.string(), fmt::format("task 0 on {} has not appeared after two minutes", task.first_node),
                      "see what it says; the archive (--runs) must be on a file system that all nodes share");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  std::string address = archive::read_file(file, 1 << 10);
  while (!address.empty() && address.back() == '\n') address.pop_back();
  return address;
}

// What `isobit run` is called with, for a process of its own that joins the job.
std::vector<std::string> joining_words(const RunRequest& request) {
  const WorkersRequest& workers = request.workers;
  std::vector<std::string> words = {"isobit", "run"};
  words.insert(words.end(), request.file_words.begin(), request.file_words.end());
  words.insert(words.end(), {"--join", workers.join, "--threads", std::to_string(request.execution.threads)});
  words.insert(words.end(), {"--silence", std::to_string(workers.silence)});
  if (!workers.key_file.empty()) words.insert(words.end(), {"--key-file", workers.key_file});
  const std::vector<std::string> same = request.execution.words();
  words.insert(words.end(), same.begin(), same.end());
  return words;
}

// This task's worker, started again where a signal ended it: the task's exit code is that of a worker that ended by
// itself.
RunOutcome look_after_worker(const RunRequest& request) {
  constexpr int kMostDeaths = 5;
  constexpr double kShort = 30;  // seconds; one that lived longer may have met bad luck
  const process::StopSignal stop;
  WorkerProcesses worker(joining_words(request), {});
  worker.start();
  bool told = false;
  for (int deaths = 0;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (stop.flag() && !told) {
      told = true;
      for (const pid_t pid : worker.pids()) ::kill(pid, SIGTERM);
    }
    for (const WorkerProcesses::Ended& ended : worker.collect()) {
      fmt::print(stderr, "{}", ended.said);
      if (WIFEXITED(ended.status)) return {WEXITSTATUS(ended.status), {}, ""};
      const int code = 128 + WTERMSIG(ended.status);
      deaths = ended.seconds < kShort ? deaths + 1 : 0;
      if (told || deaths == kMostDeaths) return {code, {}, ""};
      fmt::print(stderr, "isobit: worker {} ended with {}; another one is started\n", ended.pid, how_it_ended(ended));
      worker.start();
    }
  }
}

}  // namespace

void take_share(train::ExecutionOptions& execution, const slurm::Allocation& task) {
  if (execution.threads == 0)
    execution.threads = static_cast<int>(std::min<std::int64_t>(task.cpus, kernels::available_cpus()));
  if (task.gpus.empty() || task.local_tasks == 1) return;
  std::string own;
  for (const std::string& gpu : task.gpus) own += (own.empty() ? "" : ",") + gpu;
  ::setenv("CUDA_VISIBLE_DEVICES", own.c_str(), 1);
}

RunOutcome run_in_job(RunRequest request, const slurm::Allocation& task) {
  if (request.workers.key_file.empty() && std::getenv(scale::kKeyVariable) == nullptr)
    throw UserError("srun", fmt::format("{} tasks of one run need the job's key", task.tasks),
                    "submit the job with isobit submit, name a file with --key-file, or start one task (srun -n 1)");
  const fs::path file = address_file(request, task);
  if (task.task > 0) {
    request.workers.join = await_address(file, task);
    return look_after_worker(request);
  }
  const Published published(file);
  request.workers.count = 1;
  request.workers.expected = task.tasks;
  request.workers.listen = host_address(task);
  request.workers.listening = [&](const std::string& address) { published.publish(address); };
  return run_workers(request);
}

}  // namespace isobit::jobs
