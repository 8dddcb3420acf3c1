#include "process/free_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace isobit::process {
namespace {

// The number that a file begins with; nothing where it says none.
std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (file >> value) return value;
  return {};
}

}  // namespace

std::uint64_t free_memory() {
  std::uint64_t bytes = std::uint64_t{4} << 30;
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (std::uint64_t value = 0; file >> name >> value; file.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    if (name == "MemAvailable:") bytes = value << 10;
  }
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (const auto limit = number_in(path)) bytes = std::min(bytes, *limit);
  }
  return bytes;
}

}  // namespace isobit::process
