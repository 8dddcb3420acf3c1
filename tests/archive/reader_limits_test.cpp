// What a reader does not wait for, does not hold in memory and does not take hours over: pipes in the place of files,
// files larger than any run's, texts and archives that are quick to write and long to read.
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "archive/checkpoint_compare.h"
#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/tuning_file.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

// The message of the error that reading leads to while a pipe lies at `path`; "waits" where nothing comes.
template <class Read>
std::string error_at_pipe(const fs::path& path, const Read& read) {
  fs::remove(path);
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::future<std::string> error = std::async(std::launch::async, [&] { return error_of(read); });
  const bool waits = error.wait_for(std::chrono::seconds(60)) != std::future_status::ready;
  if (waits) ::close(::open(path.c_str(), O_WRONLY));  // lets the reader go on
  const std::string found = error.get();
  fs::remove(path);
  return waits ? "waits" : found;
}

TEST(ReaderLimits, APipeIsNotWaitedFor) {
  const Scratch scratch;
  const fs::path table = scratch.path() / "tuning.json";
  ::setenv("ISOBIT_TUNING", table.c_str(), 1);
  EXPECT_NE(error_at_pipe(table, [] { static_cast<void>(load_tuning()); }).find("the tuning table cannot be read"),
            std::string::npos);
  ::unsetenv("ISOBIT_TUNING");
  for (const char* name : {kManifest, kStateFile, kExperimentFile, kStepsLog, kMetricsLog, kCheckpointsLog}) {
    const fs::path run = finished_run(scratch.runs());
    const std::string error = error_at_pipe(run / name, [&] { static_cast<void>(RunRecord::open(run)); });
    EXPECT_TRUE(!error.empty() && error != "waits") << name << ": " << error;
    fs::remove_all(run);
  }
  EXPECT_NE(error_at_pipe(table, [&] { static_cast<void>(read_file(table, 10)); }).find("not a regular file"),
            std::string::npos);
}

// Holes, which take no room: the size is looked at before anything is read.
TEST(ReaderLimits, AFileLargerThanAnyRunsIsNotRead) {
  const Scratch scratch;
  for (const char* name : {kManifest, kStateFile, kExperimentFile, kEnvironmentFile, kDataFile}) {
    const fs::path run = finished_run(scratch.runs());
    fs::resize_file(run / name, largest_file(name) + 1);
    if (name != std::string(kManifest) && name != std::string(kStateFile)) seal_anew(run);
    const std::string error = error_of([&] { static_cast<void>(RunRecord::open(run)); });
    const std::string size = std::to_string(largest_file(name) + 1);
    EXPECT_TRUE(error.find("has " + size + " bytes") != std::string::npos) << name << ": " << error;
    fs::remove_all(run);
  }
  const fs::path table = scratch.path() / "tuning.json";
  overwrite(table, "{}");
  fs::resize_file(table, std::uint64_t{1} << 36);
  ::setenv("ISOBIT_TUNING", table.c_str(), 1);
  EXPECT_NE(error_of([] { static_cast<void>(load_tuning()); }).find("the tuning table cannot be read"),
            std::string::npos);
  ::unsetenv("ISOBIT_TUNING");
  EXPECT_NE(error_of([&] { static_cast<void>(read_file(table, 1 << 20)); }).find("at most 1048576 are expected"),
            std::string::npos);
}

TEST(ReaderLimits, NoFileOfARecordIsWithoutOne) {
  for (const char* name : {kManifest, kStateFile, kExperimentFile, kEnvironmentFile, kDataFile, kStepsLog, "any.jsonl",
                           "sources.json", "dirty.patch", "network.pt", "anything"})
    EXPECT_LE(largest_file(name), std::uint64_t{1} << 34) << name;
}

std::string object_of(int names) {
  std::string text = "{";
  for (int i = 0; i < names; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  return text + "}";
}

std::string refusal_of(const std::string& text) {
  try {
    static_cast<void>(parse_json(text));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// An ordered object looks through all its names for each new one.
TEST(ReaderLimits, ManyNamesOrLevelsAreRefusedNotWaitedFor) {
  EXPECT_EQ(refusal_of(object_of(10'000)), "");
  EXPECT_NE(refusal_of(object_of(10'001)).find("more than 10000 names"), std::string::npos);
  EXPECT_NE(refusal_of(object_of(1'000'000)).find("more than 10000 names"), std::string::npos);
  EXPECT_EQ(refusal_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_NE(refusal_of(std::string(1'000'000, '[')).find("more than 64 levels"), std::string::npos);
}

std::string number(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> 8 * i & 0xff);
  return bytes;
}

// A zip file whose `names` members are all the same `size` bytes.
std::string overlapping(std::size_t names, std::size_t size) {
  const std::string sizes = number(size, 4) + number(size, 4), length = number(5, 2);
  std::string file = "PK\3\4" + std::string(14, '\0') + sizes + length + number(0, 2) + "10000";
  file += std::string(size, 'x');
  const std::size_t at = file.size();
  for (std::size_t i = 0; i < names; ++i) {
    file += "PK\1\2" + std::string(16, '\0') + sizes + length + number(0, 2) + std::string(10, '\0') + number(0, 4) +
            std::to_string(10'000 + i);
  }
  return file + "PK\5\6" + std::string(4, '\0') + number(names, 2) + number(names, 2) + number(0, 4) + number(at, 4) +
         number(0, 2);
}

TEST(ReaderLimits, MembersThatOverlapAreNotCompared) {
  const Scratch scratch;
  const fs::path first = scratch.path() / "first.pt", second = scratch.path() / "second.pt";
  const auto compared = [&](std::size_t names, std::size_t size) {
    overwrite(first, overlapping(names, size));
    overwrite(second, overlapping(names, size) + '\0');  // other files, the same members
    return different_part(first, second);
  };
  EXPECT_EQ(compared(1, 1000), "");
  EXPECT_EQ(compared(2, 1), "");  // less than the file holds
  EXPECT_EQ(compared(20'000, 4'000'000), "its bytes");
}

}  // namespace
}  // namespace isobit::archive
