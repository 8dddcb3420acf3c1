#include "bench/saved_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>
#include <utility>

#include "archive/environment.h"
#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/user_error.h"

namespace isobit::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargest = std::uint64_t{1} << 28;
constexpr const char* kRemedy = "rows go to a file of their own: --save bench/results/NAME.jsonl";

[[noreturn]] void refuse(const fs::path& file, std::size_t line, const std::string& problem) {
  throw archive::UserError(fmt::format("{}:{}", file.string(), line), problem, kRemedy);
}

void expect_row(const fs::path& file, std::size_t line, std::string_view text) {
  try {
    const Json row = archive::parse_json(text);
    if (row.is_object() && row.value("format", Json()) == kSavedRow) return;
  } catch (const std::exception&) {  // said below
  }
  refuse(file, line, fmt::format("no row that isobit bench saved (\"format\": \"{}\")", kSavedRow));
}

// Every line a row, and the last one complete: a row behind half a line would be lost with it.
void expect_rows(const fs::path& file) {
  const std::string text = archive::read_file(file, kLargest);
  std::size_t line = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) refuse(file, line, "the line has no end");
    expect_row(file, line, std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
}

void expect_writable(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) throw archive::UserError(file.string(), "is a folder", kRemedy);
  if (archive::is_there(file)) {
    if (::access(file.c_str(), W_OK) != 0) archive::throw_file_error(file, "cannot be written", errno);
    return expect_rows(file);
  }
  const fs::path folder = fs::absolute(file).parent_path();
  if (!fs::is_directory(folder, ignored))
    throw archive::UserError(folder.string(), "no such folder", "make it, or save the rows in another one");
  if (::access(folder.c_str(), W_OK | X_OK) != 0) archive::throw_file_error(folder, "cannot be written", errno);
}

// Of processes that append side by side, one at a time; where the file system has no locks, the append alone decides.
class Locked {
 public:
  explicit Locked(const fs::path& file) : descriptor_(::open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) archive::throw_file_error(file, "cannot be written", errno);
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Locked() { ::close(descriptor_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  int descriptor_;
};

int processor_number(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1) != key) continue;
    return std::atoi(line.c_str() + colon + 1);
  }
  return 0;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", ::gmtime_r(&now, &parts))};
}

// Its name alone does not say what a virtual machine's processor is: family and model do.
Json machine(const Json& environment) {
  Json result = environment.at("hardware");
  if (const int family = processor_number("cpu family"); family > 0) {
    result["cpu_family"] = family;
    result["cpu_model"] = processor_number("model");
  }
  return result;
}

}  // namespace

SavedRows::SavedRows(fs::path file, Measurement measurement)
    : file_(std::move(file)), measurement_(std::move(measurement)) {
  expect_writable(file_);
}

void SavedRows::append(const nlohmann::json& figures, std::optional<double> waited) const {
  const Json environment = archive::parse_json(archive::environment_json());
  Json row{{"format", kSavedRow},
           {"what", measurement_.what},
           {"command", measurement_.command},
           {"date_utc", now_utc()},
           {"commit", archive::program_version()},
           {"peers", measurement_.peers},
           {"machine", machine(environment)},
           {"variables", environment.at("variables")},
           {"waited", nullptr}};
  if (waited) row["waited"] = *waited;
  for (const auto& [key, value] : figures.items()) {
    if (row.contains(key)) throw std::logic_error("a row's own key has the name of one that all rows have: " + key);
    row[key] = value;
  }
  const Locked lock(file_);
  expect_rows(file_);
  archive::AppendFile out(file_);
  out.append(row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  out.sync();
}

}  // namespace isobit::bench
