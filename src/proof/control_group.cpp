#include "proof/control_group.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "archive/files.h"
#include "archive/user_error.h"

namespace isobit::proof {
namespace {

constexpr const char* kTop = "/sys/fs/cgroup";

// Root of the machine: where uids are not another user namespace's.
bool is_root() {
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 1, outside = 1;
  map >> inside >> outside;
  return ::geteuid() == 0 && inside == 0 && outside == 0;
}

bool write(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) ::close(file);
  return written;
}

// "isobit-<process namespace>-": the groups of verifiers whose processes can be judged from here.
std::string common_prefix() {
  struct stat space {};
  static_cast<void>(::stat("/proc/self/ns/pid", &space));
  return fmt::format("isobit-{}-", space.st_ino);
}

// A verifier that was killed could not remove its group. An occupied one stays: the system refuses.
void remove_abandoned(const std::string& folder) {
  const std::string prefix = common_prefix();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    pid_t owner = 0;
    if (!name.starts_with(prefix)) continue;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), owner);
    if (owner > 0 && ::kill(owner, 0) != 0 && errno == ESRCH) ::rmdir(entry.path().c_str());
  }
}

}  // namespace

ControlGroup::ControlGroup(std::uint64_t memory, std::int64_t processes) {
  if (!is_root()) return;
  const std::string name = fmt::format("{}{}-{}", common_prefix(), ::getpid(), archive::random_suffix());
  const auto make = [&](const std::string& controller) {
    remove_abandoned(kTop + controller);
    const std::string folder = fmt::format("{}{}/{}", kTop, controller, name);
    if (::mkdir(folder.c_str(), 0755) != 0) return std::string();
    folders_.push_back(folder);
    return folder;
  };
  const bool unified = ::access(fmt::format("{}/cgroup.controllers", kTop).c_str(), F_OK) == 0;
  const std::string pids = make(unified ? "" : "/pids");
  if (pids.empty() || !write(pids + "/pids.max", std::to_string(processes))) {
    for (const std::string& folder : folders_) ::rmdir(folder.c_str());
    throw archive::UserError("root", "cannot limit the processes of a sandbox: no control group can be made",
                             "verify as another user");
  }
  // Where there is no such controller, the watcher is left (process_watch.h).
  const std::string held = unified ? pids : make("/memory");
  static_cast<void>(write(held + (unified ? "/memory.max" : "/memory.limit_in_bytes"), std::to_string(memory)));
  for (const std::string& folder : folders_) entries_.push_back(folder + "/cgroup.procs");
}

ControlGroup::~ControlGroup() {
  for (const std::string& folder : folders_) {
    for (int tries = 0; ::rmdir(folder.c_str()) != 0 && errno == EBUSY && tries < 100; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool ControlGroup::enter() const {
  for (const std::string& entry : entries_) {
    const int file = ::open(entry.c_str(), O_WRONLY | O_CLOEXEC);
    const bool entered = file >= 0 && ::write(file, "0\n", 2) == 2;
    if (file >= 0) ::close(file);
    if (!entered) return false;
  }
  return true;
}

}  // namespace isobit::proof
