#include "archive/lock_owner.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "archive/json_text.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_of(const char* path) {
  std::error_code ignored;
  return fs::read_symlink(path, ignored).string();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct ProcessState {
  bool shown = false;
  bool ended = false;
  std::string started;  // clock ticks since boot
};

// /proc/PID/stat: "pid (name) state ...", the count of threads is field 20, the start time 22; the name may hold blanks
// and brackets. A dead leader whose other threads live is no dead process.
ProcessState process_state(const std::string& process) {
  const std::string line = first_line("/proc/" + process + "/stat");
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(line.substr(bracket + 1));
  std::string field, state, threads;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3) state = field;
    if (number == 20) threads = field;
  }
  return {true, (state == "Z" && (threads == "0" || threads == "1")) || state == "X", field};
}

// Whether /proc shows the processes of this process' own namespace: a new namespace may still have the old one's.
bool proc_is_ours() { return link_of("/proc/self") == std::to_string(::getpid()); }

// Only one kernel at a time has such a file system: a lock of another boot that lies on it is one of an earlier boot.
// Network file systems and those of virtual machines and users (NFS, 9p, virtiofs, FUSE) may have several.
bool has_one_kernel(const fs::path& folder) {
  struct statfs status {};
  if (::statfs(folder.c_str(), &status) != 0) return false;
  constexpr std::array<std::uint32_t, 7> kLocal{0xEF53 /* ext2 to 4 */,
                                                0x58465342 /* XFS */,
                                                0x9123683E /* Btrfs */,
                                                0xF2F52010 /* F2FS */,
                                                0x2FC12FC1 /* ZFS */,
                                                0xCA451A4E /* bcachefs */,
                                                0x794C7630 /* overlay, whose upper layer is local */};
  return std::find(kLocal.begin(), kLocal.end(), static_cast<std::uint32_t>(status.f_type)) != kLocal.end();
}

struct OwnJob {
  std::mutex mutex;
  std::optional<Job> job;
};
OwnJob& own_job() {
  static OwnJob own;
  return own;
}

Judgement judge_process(const LockOwner& owner, const LockOwner& self) {
  if (owner.pid <= 0) return {Life::unknown, "its lock names no process"};
  // Says it of processes that /proc hides, too.
  if (::kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH) return {Life::gone, ""};
  // A process of that number lives: that one, or a later one.
  const ProcessState state = proc_is_ours() ? process_state(std::to_string(owner.pid)) : ProcessState{};
  if (!state.shown || owner.started.empty() || owner.time != self.time)
    return {Life::unknown, "a process of this number lives, but /proc does not show since when"};
  return {state.ended || state.started != owner.started ? Life::gone : Life::alive, ""};
}

}  // namespace

// Slurm's job: the same through all its restarts, one for each task of an array.
Job scheduled_job() {
  Job job;
  const std::string array = variable("SLURM_ARRAY_JOB_ID"), task = variable("SLURM_ARRAY_TASK_ID"),
                    restarts = variable("SLURM_RESTART_COUNT");
  const char* end = restarts.data() + restarts.size();
  if (!restarts.empty() && std::from_chars(restarts.data(), end, job.restart).ptr != end) return {};
  job.cluster = variable("SLURM_CLUSTER_NAME");
  job.name = array.empty() || task.empty() ? variable("SLURM_JOB_ID") : array + "_" + task;
  return job;
}

void set_job(const Job& job) {
  const std::lock_guard lock(own_job().mutex);
  own_job().job = job;
}

LockOwner this_process() {
  LockOwner self;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  self.host = name.data();
  self.machine = first_line("/etc/machine-id");
  self.boot = first_line("/proc/sys/kernel/random/boot_id");
  self.processes = link_of("/proc/self/ns/pid");
  self.time = link_of("/proc/self/ns/time");
  self.pid = ::getpid();
  if (proc_is_ours()) self.started = process_state("self").started;
  Job job = scheduled_job();
  {
    const std::lock_guard lock(own_job().mutex);
    if (own_job().job) job = *own_job().job;
  }
  self.cluster = job.cluster, self.job = job.name, self.restart = job.restart;
  return self;
}

std::string format_owner(const LockOwner& owner) {
  nlohmann::ordered_json object{
      {"host", owner.host}, {"machine", owner.machine}, {"boot", owner.boot},       {"processes", owner.processes},
      {"time", owner.time}, {"pid", owner.pid},         {"started", owner.started}, {"generation", owner.generation}};
  if (!owner.job.empty()) {
    object["cluster"] = owner.cluster;
    object["job"] = owner.job;
    object["restart"] = owner.restart;
  }
  object["token"] = owner.token;
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<LockOwner> parse_owner(const std::string& text) {
  try {
    const auto object = parse_json(text);
    LockOwner owner;
    owner.host = object.at("host").get<std::string>();
    owner.machine = object.at("machine").get<std::string>();
    owner.boot = object.at("boot").get<std::string>();
    owner.processes = object.at("processes").get<std::string>();
    owner.started = object.at("started").get<std::string>();
    owner.pid = integer<pid_t>(object.at("pid"));
    owner.time = object.value("time", this_process().time);
    if (object.contains("generation")) owner.generation = integer<std::uint64_t>(object["generation"]);
    owner.cluster = object.value("cluster", "");
    owner.job = object.value("job", "");
    if (object.contains("restart")) owner.restart = integer<std::int64_t>(object["restart"]);
    owner.token = object.value("token", "");
    return owner;
  } catch (const std::exception&) {  // of JSON, or of a type other than expected
    return std::nullopt;
  }
}

Judgement judge(const LockOwner& owner, const LockOwner& self, const fs::path& folder) {
  if (owner.boot.empty() || self.boot.empty())
    return {Life::unknown, "this system does not say which boot of which machine it is"};
  if (owner.boot == self.boot) {
    if (owner.processes.empty() || owner.processes != self.processes)
      return {Life::unknown, "it has a process namespace of its own: a container"};
    return judge_process(owner, self);
  }
  if (owner.host != self.host || owner.machine != self.machine || self.machine.empty())
    return {Life::unknown, "it is on another machine"};
  if (!has_one_kernel(folder))
    return {Life::unknown, "this machine was booted since, or another one has its name and its id"};
  return {Life::gone, ""};
}

bool is_later_restart(const LockOwner& self, const LockOwner& owner) {
  return !self.job.empty() && self.job == owner.job && !self.cluster.empty() && self.cluster == owner.cluster &&
         self.restart > owner.restart;
}

}  // namespace isobit::archive
