#include "proof/sandbox.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>

#include "archive/files.h"
#include "archive/run_export.h"
#include "archive/user_error.h"
#include "proof/control_group.h"
#include "proof/syscall_filter.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr const char* kSystem[] = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
constexpr const char* kStores[] = {"/nix/store", "/gnu/store"};  // where some systems keep all programs
constexpr const char* kEtc[] = {"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",      "/etc/alternatives",
                                "/etc/localtime",   "/etc/os-release", "/sys/devices/system/cpu"};
constexpr const char* kOwn[] = {"/proc", "/sys", "/dev", "/verify"};
constexpr int kMostFiles = 400'000;  // files and folders that can be made; each costs a kibibyte of the kernel's

// ---- Before bubblewrap: in the child, in namespaces of its own, by system calls alone.

struct Action {
  enum class Kind { folder, file, tmpfs, bind, overlay, whiteout } kind;
  std::string from, to;  // relative to the work folder
};

int perform(const Action& action) {
  const char *from = action.from.c_str(), *to = action.to.c_str();
  switch (action.kind) {
    case Action::Kind::folder: return ::mkdir(to, 0755) == 0 || errno == EEXIST ? 0 : errno;
    case Action::Kind::file: return ::mknod(to, S_IFREG | 0644, 0) == 0 ? 0 : errno;
    case Action::Kind::tmpfs: return ::mount("tmpfs", to, "tmpfs", MS_NOSUID | MS_NODEV, from) == 0 ? 0 : errno;
    case Action::Kind::bind: return ::mount(from, to, nullptr, MS_BIND | MS_REC, nullptr) == 0 ? 0 : errno;
    case Action::Kind::overlay: return ::mount("overlay", to, "overlay", MS_NOSUID | MS_NODEV, from) == 0 ? 0 : errno;
    case Action::Kind::whiteout:
      return ::mknod(to, S_IFCHR, ::makedev(0, 0)) == 0 || errno == EEXIST
                 ? 0
                 : errno;  // what an overlay takes for "not there"
  }
  return EINVAL;
}

struct Preparation {
  std::string folder, uid_map, gid_map;
  std::vector<Action> actions;
  rlim_t processes = RLIM_INFINITY;
  std::unique_ptr<ControlGroup> group;

  static int fail(const char* what, const char* detail, char* problem, std::size_t size) {
    const int code = errno;
    const std::size_t first = std::min(size, std::strlen(what));
    std::memcpy(problem, what, first);
    std::memcpy(problem + first, detail, std::min(size - first, std::strlen(detail)));
    return code;
  }
  static bool write(const char* path, const std::string& text) {
    const int file = ::open(path, O_WRONLY | O_CLOEXEC);
    const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (file >= 0) ::close(file);
    return written;
  }

  int operator()(char* problem, std::size_t size) const {
    if (!group->enter()) return fail("a control group", "", problem, size);
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return fail("a user namespace", "", problem, size);
    static_cast<void>(write("/proc/self/setgroups", deny_));
    if (!write("/proc/self/uid_map", uid_map) || !write("/proc/self/gid_map", gid_map))
      return fail("the user namespace's ids", "", problem, size);
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return fail("a mount namespace", "", problem, size);
    if (::chdir(folder.c_str()) != 0) return fail(folder.c_str(), "", problem, size);
    ::umask(022);
    for (const Action& action : actions) {
      if (const int code = perform(action); code != 0) {
        errno = code;
        return fail(action.kind == Action::Kind::overlay ? "an overlay file system, " : "its folder, ",
                    action.to.c_str(), problem, size);
      }
    }
    // Here, where only the sandbox's processes count.
    const rlimit limit{processes, processes};
    return ::setrlimit(RLIMIT_NPROC, &limit) == 0 ? 0 : fail("a limit of processes", "", problem, size);
  }

 private:
  std::string deny_ = "deny";
};

bool is_system(const fs::path& path) {
  const auto holds = [&](const char* folder) { return lies_in(path, folder); };
  return std::any_of(std::begin(kSystem), std::end(kSystem), holds) ||
         std::any_of(std::begin(kStores), std::end(kStores), holds);
}

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path found = fs::canonical(path, error);
  return error ? fs::absolute(path).lexically_normal() : found;
}

class Builder {
  struct Mount {
    std::string at, option, from;
  };

 public:
  Builder(const SandboxRequest& request, const fs::path& work)
      : request_(request), scratch_(work / "scratch"), preparation_(std::make_shared<Preparation>()) {
    std::set<fs::path> hidden;
    for (const fs::path& path : request.hidden) {  // a link, and what it leads to
      const fs::path given = fs::absolute(path).lexically_normal();
      hidden.insert({resolved(path), resolved(given.parent_path()) / given.filename()});
    }
    for (const fs::path& path : hidden) {  // folders come before what lies in them, which they hide
      if (!is_hidden(path)) hidden_.insert(hidden_.end(), path);
    }
    fs::create_directories(scratch_);
    write_etc(work / "etc");
  }

  process::ChildRequest child() {
    prepare_folders();
    process::ChildRequest child;
    child.words = bubblewrap();
    child.words.insert(child.words.end(), request_.words.begin(), request_.words.end());
    child.own_environment = true;
    child.environment = request_.environment;
    child.together = true;
    child.handed = syscall_filter();
    child.memory = request_.limits.memory;
    child.processes = request_.limits.processes;
    child.seconds = request_.limits.seconds;
    child.limits = {{RLIMIT_CORE, 0},
                    {RLIMIT_FSIZE, request_.limits.disk},
                    {RLIMIT_DATA, request_.limits.memory},
                    {RLIMIT_MSGQUEUE, 0},
                    {RLIMIT_MEMLOCK, rlim_t{8} << 20}};
    child.prepare = [preparation = preparation_](char* problem, std::size_t size) {
      return (*preparation)(problem, size);
    };
    return child;
  }

 private:
  void write_etc(const fs::path& etc) {
    fs::create_directories(etc);
    const std::string home = request_.home.string();
    archive::write_file(etc / "passwd", fmt::format("verify:x:1000:1000::{}:/bin/sh\n", home));
    archive::write_file(etc / "group", "verify:x:1000:\n");
    archive::write_file(etc / "hosts", "127.0.0.1 localhost isobit\n::1 localhost\n");
    archive::write_file(etc / "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n");
    etc_ = etc;
  }

  void add(Action::Kind kind, std::string from, std::string to) {
    preparation_->actions.push_back({kind, std::move(from), std::move(to)});
  }

  void prepare_folders() {
    preparation_->folder = scratch_.parent_path().string();
    preparation_->uid_map = fmt::format("0 {} 1", ::geteuid());
    preparation_->gid_map = fmt::format("0 {} 1", ::getegid());
    preparation_->processes = static_cast<rlim_t>(request_.limits.processes);
    preparation_->group =
        std::make_unique<ControlGroup>(request_.limits.memory + request_.limits.disk, request_.limits.processes);
    add(Action::Kind::tmpfs, fmt::format("size={},nr_inodes={},mode=755", request_.limits.disk, kMostFiles), "scratch");
    for (const char* name : {"upper", "work", "merged", "hides", "home", "tmp", "shm", "runs", "nothing"})
      add(Action::Kind::folder, "", fmt::format("scratch/{}", name));
    add(Action::Kind::file, "", "scratch/no-file");
    std::string lower;
    for (std::size_t i = 0; i < request_.layers.size(); ++i) {
      const fs::path layer = resolved(request_.layers[i]);
      if (is_hidden(layer)) continue;
      const std::string name = fmt::format("scratch/layer-{}", i);
      add(Action::Kind::folder, "", name);
      add(Action::Kind::bind, layer.string(), name);
      if (i == 1) lower += ":scratch/hides";
      lower += (lower.empty() ? "" : ":") + name;
      if (i > 0) hide_in(layer);
    }
    add(Action::Kind::overlay, fmt::format("userxattr,lowerdir={},upperdir=scratch/upper,workdir=scratch/work", lower),
        "scratch/merged");
  }

  // Nothing in hidden_ lies in another of them, and paths are in the order of their parts: what holds `path` is right
  // before it.
  [[nodiscard]] bool is_hidden(const fs::path& path) const {
    const auto after = hidden_.upper_bound(path);
    return after != hidden_.begin() && lies_in(path, *std::prev(after));
  }

  void hide_in(const fs::path& layer) {
    for (const fs::path& path : hidden_) {
      if (!lies_in(path, layer)) continue;
      fs::path at = "scratch/hides";
      const fs::path inner = path.lexically_relative(layer);
      for (const fs::path& part : inner.parent_path()) add(Action::Kind::folder, "", (at /= part).string());
      add(Action::Kind::whiteout, "", (at / inner.filename()).string());
    }
  }

  // ---- What bubblewrap mounts

  void mount(const char* option, const fs::path& from, const fs::path& at) {
    mounts_.push_back({at.string(), option, from.string()});
  }

  // What has to be seen at a path that is given, which may lead through links, and at that without links.
  void mount_readable(const fs::path& path) {
    const fs::path real = resolved(path), given = fs::absolute(path).lexically_normal();
    for (const fs::path& at : real == given ? std::vector{real} : std::vector{real, given}) {
      if (is_system(at) || is_shown(at, real)) continue;
      mount("--ro-bind-try", source_of(real), at);
      shown_.emplace_back(at, real);
      if (source_of(real) != real) continue;  // hidden there already
      const fs::path below = lowest_layer();
      const bool holds_layer = !below.empty() && below != real && lies_in(below, real);
      if (holds_layer) mount("--ro-bind", scratch_ / "merged", at / below.lexically_relative(real));
      for (const fs::path& hidden : hidden_) {
        if (hidden == real || !lies_in(hidden, real) || (holds_layer && lies_in(hidden, below))) continue;
        std::error_code ignored;
        mount("--ro-bind", scratch_ / (fs::is_directory(hidden, ignored) ? "nothing" : "no-file"),
              at / hidden.lexically_relative(real));
      }
    }
  }

  // As a part of what was mounted already.
  [[nodiscard]] bool is_shown(const fs::path& at, const fs::path& real) const {
    return std::any_of(shown_.begin(), shown_.end(), [&](const auto& shown) {
      const auto& [where, what] = shown;
      if (at == where) return what == real;
      return lies_in(at, where) && what / at.lexically_relative(where) == real;
    });
  }

  // A link of that path is there already, in the system or in what is mounted.
  [[nodiscard]] bool has_link(const fs::path& path) const {
    return is_system(path) || std::any_of(mounts_.begin(), mounts_.end(), [&](const Mount& mount) {
             return lies_in(path, mount.at) && mount.option.starts_with("--ro");
           });
  }

  // Whose files /verify/program shows below the others; "": there is none.
  [[nodiscard]] fs::path lowest_layer() const {
    if (request_.layers.size() < 2) return {};
    const fs::path layer = resolved(request_.layers.back());
    return is_hidden(layer) ? fs::path() : layer;
  }

  [[nodiscard]] fs::path source_of(const fs::path& real) const {
    const fs::path below = lowest_layer();
    if (below.empty() || is_hidden(real) || !lies_in(real, below)) return real;
    return (scratch_ / "merged" / real.lexically_relative(below)).lexically_normal();
  }

  void mount_system() {
    std::error_code ignored;
    for (const char* path : kSystem) {
      if (fs::is_symlink(path, ignored)) {
        words_.insert(words_.end(), {"--symlink", fs::read_symlink(path).string(), path});
      } else if (fs::is_directory(path, ignored)) {
        words_.insert(words_.end(), {"--ro-bind", path, path});
      }
    }
    for (const auto& list : {std::vector<const char*>(std::begin(kStores), std::end(kStores)),
                             std::vector<const char*>(std::begin(kEtc), std::end(kEtc))}) {
      for (const char* path : list) words_.insert(words_.end(), {"--ro-bind-try", path, path});
    }
    for (const auto& entry : fs::directory_iterator(etc_))
      words_.insert(words_.end(), {"--ro-bind", entry.path().string(), "/etc/" + entry.path().filename().string()});
  }

  std::vector<std::string> bubblewrap() {
    words_ = {"bwrap",
              "--unshare-user",
              "--disable-userns",
              "--uid",
              "1000",
              "--gid",
              "1000",
              "--unshare-ipc",
              "--unshare-pid",
              "--unshare-net",
              "--unshare-uts",
              "--unshare-cgroup-try",
              "--hostname",
              "isobit",
              "--new-session",
              "--die-with-parent",
              "--cap-drop",
              "ALL",
              "--seccomp",
              "4"};
    mount_system();
    words_.insert(words_.end(), {"--proc", "/proc", "--dev", "/dev"});
    if (request_.devices) mount_devices();
    mount("--bind", scratch_ / "tmp", "/tmp");
    mount("--bind", scratch_ / "home", request_.home);
    std::vector<fs::path> readable = request_.readable;
    std::sort(readable.begin(), readable.end());
    for (const fs::path& path : readable) mount_readable(path);
    for (const fs::path& path : request_.as_they_are) mount("--ro-bind", path, path);
    mount("--bind", scratch_ / "shm", "/dev/shm");
    mount("--bind", scratch_ / "runs", kRunsFolder);
    mount("--bind", scratch_ / "merged", kProgramFolder);
    std::stable_sort(mounts_.begin(), mounts_.end(), [](const Mount& a, const Mount& b) { return a.at < b.at; });
    for (const Mount& mount : mounts_) words_.insert(words_.end(), {mount.option, mount.from, mount.at});
    for (const auto& [at, to] : request_.links) {
      if (!has_link(at)) words_.insert(words_.end(), {"--symlink", to, at.string()});
    }
    // /proc too: where this process is root's, files in /proc/sys are its own, whatever capabilities it has.
    words_.insert(words_.end(),
                  {"--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--"});
    return words_;
  }

  void mount_devices() {
    std::error_code error;
    for (fs::directory_iterator it("/dev", error), end; !error && it != end; it.increment(error)) {
      const std::string path = it->path().string();
      if (path.starts_with("/dev/nvidia")) words_.insert(words_.end(), {"--dev-bind-try", path, path});
    }
  }

  const SandboxRequest& request_;
  fs::path scratch_, etc_;
  std::set<fs::path> hidden_;
  std::vector<Mount> mounts_;
  std::vector<std::pair<fs::path, fs::path>> shown_;  // where, which path without links
  std::vector<std::string> words_;
  std::shared_ptr<Preparation> preparation_;
};

void expect_readable(const SandboxRequest& request) {
  for (const fs::path& path : request.readable) {
    const fs::path real = resolved(path);
    const bool own = std::any_of(std::begin(kOwn), std::end(kOwn), [&](const char* f) { return lies_in(real, f); });
    if (real == "/" || (own && !lies_in(real, "/dev/shm")))
      throw UserError(path.string(), "cannot be read within the sandbox", "name the folder that is needed");
  }
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

}  // namespace

bool lies_in(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() || (std::next(end) == folder.end() && end->empty());
}

fs::path sandbox_home() {
  const char* named = std::getenv("HOME");
  const fs::path home = fs::path(named != nullptr ? named : "").lexically_normal();
  const bool own = std::any_of(std::begin(kOwn), std::end(kOwn), [&](const char* f) { return lies_in(home, f); });
  const bool usual = home.is_absolute() && home != "/" && home != "/tmp" && home != "/etc" && !is_system(home);
  return usual && !own ? home : fs::path("/home/verify");
}

process::ChildRequest in_sandbox(const SandboxRequest& request, const fs::path& work) {
  expect_readable(request);
  return Builder(request, work).child();
}

void require_sandbox() {
  constexpr const char* kTrust = "or --trust: it then runs with all your rights";
  if (process::find_program("bwrap").empty()) {
    throw UserError("the record's program", "cannot run in a sandbox: there is no bwrap on PATH",
                    fmt::format("install Debian's package bubblewrap, {}", kTrust));
  }
  const archive::TemporaryFolder work;
  SandboxRequest request;
  fs::create_directories(work.path() / "layer");
  request.layers = {work.path() / "layer"};
  request.home = "/home/verify";
  request.words = {"/usr/bin/true"};
  request.limits = sandbox_limits({});
  request.limits.seconds = 60;
  std::string reason;
  try {
    const process::ChildResult result = process::run_child(in_sandbox(request, work.path()));
    if (result.code == 0) return;
    reason = result.output.empty() ? result.how_it_ended() : last_line(result.output);
  } catch (const UserError& error) {
    reason = error.problem();
  }
  throw UserError("the record's program", fmt::format("cannot run in a sandbox: {}", reason),
                  fmt::format("it needs Debian's bubblewrap 0.8 and user namespaces of Linux 5.11, {}", kTrust));
}

}  // namespace isobit::proof
