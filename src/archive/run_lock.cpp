#include "archive/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "archive/files.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

namespace fs = std::filesystem;

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

struct ProcessState {
  bool alive = false;
  std::string started;  // clock ticks since boot
};

// /proc/PID/stat: "pid (name) state ...", the start time is field 22; the name may hold blanks and brackets.
ProcessState process_state(long pid) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", pid).c_str());
  const auto bracket = line.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(line.substr(bracket + 1));
  std::string field, state;
  for (int number = 3; number <= 22 && fields >> field; ++number) {
    if (number == 3) state = field;
  }
  return {state != "Z" && state != "X", field};
}

struct Holder {
  std::string host, machine, boot, processes, started;
  long pid = 0;
};

Holder myself() {
  Holder self;
  self.host = host_name();
  self.machine = first_line("/etc/machine-id");
  self.boot = first_line("/proc/sys/kernel/random/boot_id");
  std::error_code ignored;
  self.processes = fs::read_symlink("/proc/self/ns/pid", ignored).string();
  self.pid = ::getpid();
  self.started = process_state(self.pid).started;
  return self;
}

// `token` tells two locks of one process apart.
std::string to_text(const Holder& holder, const std::string& token) {
  const nlohmann::ordered_json object{
      {"host", holder.host}, {"machine", holder.machine}, {"boot", holder.boot}, {"processes", holder.processes},
      {"pid", holder.pid},   {"started", holder.started}, {"token", token}};
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::optional<Holder> parse_holder(const std::string& text) {
  try {
    const auto object = nlohmann::json::parse(text);
    return Holder{object.at("host"),      object.at("machine"), object.at("boot"),
                  object.at("processes"), object.at("started"), object.at("pid").get<long>()};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Only what this machine can be sure of: a lock is stale if its machine was booted since, or its process is
// gone.
bool is_stale(const std::string& text) {
  const auto holder = parse_holder(text);
  if (!holder) return false;
  const Holder self = myself();
  if (holder->boot != self.boot) return holder->host == self.host && holder->machine == self.machine;
  if (holder->processes != self.processes) return false;  // another container: its processes are not ours to see
  const ProcessState state = process_state(holder->pid);
  return !state.alive || state.started != holder->started;
}

std::string describe(const std::string& text) {
  const auto holder = parse_holder(text);
  if (!holder) return "an unknown process";
  return fmt::format("process {} on {}", holder->pid, holder->boot == myself().boot ? "this machine" : holder->host);
}

std::optional<std::string> read_lock(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    return read_file(path, 1 << 16);
  } catch (const UserError&) {
    if (!fs::exists(path, ignored)) return std::nullopt;  // released meanwhile
    return "";                                            // there, but not to be understood: taken for alive
  }
}

// True: `path` now holds `content`, and did not exist before.
bool create_exclusively(const fs::path& path, const std::string& content) {
  const fs::path temporary = path.parent_path() / (".tmp-" + random_suffix());
  write_file(temporary, content);
  bool created = ::link(temporary.c_str(), path.c_str()) == 0;
  const int code = errno;
  struct stat status {};
  // NFS may lose the answer of a link that was made: the count of names tells.
  if (!created && ::stat(temporary.c_str(), &status) == 0) created = status.st_nlink == 2;
  if (!created && code != EEXIST) {  // no hard links here: exclusive creation, whose content comes a moment later
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST) {
      const int reason = errno;
      ::unlink(temporary.c_str());
      throw_file_error(path, "cannot be written", reason);
    }
    if (file >= 0) {
      created = ::write(file, content.data(), content.size()) == static_cast<ssize_t>(content.size());
      ::close(file);
      if (!created) ::unlink(path.c_str());
    }
  }
  ::unlink(temporary.c_str());
  return created;
}

// Puts `content` in the place of the stale lock `seen`. Only who created the marker named after `seen` may do so, and
// the replacement is one rename: nobody finds the place empty meanwhile, and a slow process that saw the same stale
// lock finds another one under its marker. A marker whose owner died is itself a stale lock.
bool take_over(const fs::path& path, const std::string& seen, const std::string& content) {
  const fs::path marker = path.string() + fmt::format(".{:016x}", std::hash<std::string>()(seen));
  if (!create_exclusively(marker, content)) {
    const auto other = read_lock(marker);
    if (!other || !is_stale(*other) || !take_over(marker, *other, content)) return false;
  }
  bool taken = false;
  if (read_lock(path) == seen) {
    const fs::path temporary = path.parent_path() / (".tmp-" + random_suffix());
    write_file(temporary, content);
    taken = ::rename(temporary.c_str(), path.c_str()) == 0;
    if (!taken) ::unlink(temporary.c_str());
  }
  ::unlink(marker.c_str());
  return taken;
}

[[noreturn]] void throw_held(const fs::path& runs, const std::string& id, const fs::path& lock,
                             const std::string& text) {
  throw UserError((runs / id).string(), fmt::format("is being written by {}", describe(text)),
                  fmt::format("wait until it ends; if it surely ended, delete {}", lock.string()));
}

}  // namespace

RunLock::RunLock(fs::path path, std::string content) : path_(std::move(path)), content_(std::move(content)) {}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::exchange(other.path_, {})), content_(std::exchange(other.content_, {})) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(content_, other.content_);
  return *this;
}

RunLock::~RunLock() {
  // Only our own: whoever took it away may have put theirs there.
  if (!path_.empty() && read_lock(path_) == content_) ::unlink(path_.c_str());
}

RunLock RunLock::acquire(const fs::path& runs, const std::string& id) {
  const fs::path folder = runs / ".locks";
  make_folders(folder);
  const fs::path path = folder / id;
  const std::string content = to_text(myself(), random_suffix() + random_suffix());
  for (int attempt = 0; attempt < 10; ++attempt) {
    if (create_exclusively(path, content)) return {path, content};
    const auto other = read_lock(path);
    if (!other) continue;  // released meanwhile
    if (!is_stale(*other)) throw_held(runs, id, path, *other);
    if (take_over(path, *other, content)) return {path, content};
  }
  throw UserError(path.string(), "cannot be locked: other processes keep taking the lock", "try again later");
}

void RunLock::require_held() const {
  if (read_lock(path_) != content_) {
    throw UserError(path_.string(), "this process lost its lock on the run",
                    "resume the run when no other process writes it");
  }
}

std::optional<std::string> lock_holder(const fs::path& runs, const std::string& id) {
  const auto text = read_lock(runs / ".locks" / id);
  if (!text || is_stale(*text)) return std::nullopt;
  return describe(*text);
}

}  // namespace isobit::archive
