#include "process/process_watch.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace isobit::process {
namespace {

namespace fs = std::filesystem;

// The value of "NAME:   123 kB", in bytes.
std::uint64_t bytes_in(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ':') continue;
    const std::size_t digits = line.find_first_of("0123456789");
    std::uint64_t value = 0;
    if (digits != std::string::npos) std::from_chars(line.data() + digits, line.data() + line.size(), value);
    return value << 10;
  }
  return 0;
}

void add_children(pid_t process, std::vector<pid_t>& all) {
  std::error_code error;
  for (fs::directory_iterator it(fmt::format("/proc/{}/task", process), error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream file(it->path() / "children");
    for (pid_t child = 0; file >> child;) all.push_back(child);
  }
}

}  // namespace

const char* ProcessWatch::exceeded() const {
  if (memory_ == 0 && processes_ == 0) return nullptr;
  std::vector<pid_t> all{root_};
  for (std::size_t i = 0; i < all.size(); ++i) {
    add_children(all[i], all);
    if (processes_ != 0 && static_cast<std::int64_t>(all.size()) > processes_) return "processes";
  }
  // Forked processes share pages, which RssAnon counts for each of them: only where that is too much, they are told
  // apart, which takes longer.
  const auto sum = [&](const char* file, const char* name) {
    std::uint64_t bytes = 0;
    for (const pid_t process : all) bytes += bytes_in(fmt::format("/proc/{}/{}", process, file), name);
    return bytes;
  };
  if (memory_ == 0 || sum("status", "RssAnon") <= memory_) return nullptr;
  return sum("smaps_rollup", "Pss_Anon") > memory_ ? "memory" : nullptr;
}

}  // namespace isobit::process
