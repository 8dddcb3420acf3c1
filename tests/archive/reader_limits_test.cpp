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
#include "archive/toml_names.h"
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

std::string name_of(int parts) {
  std::string name = "a";
  for (int i = 1; i < parts; ++i) name += ".a";
  return name;
}

TEST(ReaderLimits, NamesOfManyPartsAreRefusedNotTakenApart) {
  const std::string most = name_of(64), more = name_of(65) + " = 1\n", dots(1000, '.');
  EXPECT_EQ(line_of_long_name(most + " = 1\n"), 0);
  EXPECT_EQ(line_of_long_name("x = 1\n" + more), 2);
  EXPECT_EQ(line_of_long_name("[" + name_of(65) + "]"), 1);
  EXPECT_EQ(line_of_long_name("x = [1, {" + more + "}]"), 1);
  EXPECT_EQ(line_of_long_name("x = [\n1.5, 2.5,\n{" + more + "}]"), 3);
  for (const std::string quote : {"\"", "'"})
    EXPECT_EQ(line_of_long_name(quote + "a" + quote + "." + name_of(64) + " = 1"), 1);
  // Dots that stand in no name.
  std::string numbers = "x = [1.5";
  for (int i = 0; i < 200; ++i) numbers += ", 1.5";
  EXPECT_EQ(line_of_long_name(numbers + "]\n# " + dots + "\n"), 0);
  for (const std::string quote : {R"(")", "'", R"(""")", "'''"}) {
    const std::string text = "x = " + quote + dots + quote;
    EXPECT_EQ(line_of_long_name(text + " # " + dots + "\n" + most + " = 1\n"), 0);
    EXPECT_EQ(line_of_long_name(text + "\n" + more), 2);
  }
  // What ends a string, and what does not: a name behind it is seen, one within it is none.
  const std::pair<std::string, std::int64_t> cases[] = {
      {R"(x = "\\" # ")" + dots + "\n" + more, 2},
      {R"(x = "\\\"" # ")" + dots + "\n" + more, 2},
      {R"(x = '\' # ')" + dots + "\n" + more, 2},
      {"x = \"\"\n" + more, 2},
      {R"(x = """""")" + ("\n" + more), 2},
      {R"(x = """"""""")" + ("\n" + more), 2},
      {"x = '''\n''\n'''''\n" + more, 4},
      {"x = \"\"\"\n\"\" \\\"\"\" " + dots + "\n\"\"\"\n" + most + " = 1", 0},
      {"x = 'it is \"' # \"\n" + more, 2},
      {"x = \"unended\n" + more, 2},
      {"x = \"unended " + dots, 0},
      {"x = \"unended\\", 0},
      {"", 0},
  };
  for (const auto& [text, line] : cases) EXPECT_EQ(line_of_long_name(text), line) << text;
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
  EXPECT_EQ(compared(1, 1000), "its bytes");
  EXPECT_EQ(compared(20'000, 4'000'000), "its bytes");
}

using Members = std::vector<std::pair<std::string, std::string>>;

// As torch.save writes it: nothing compressed, sizes after the data too, zip64's records before the end.
std::string zip_of(const Members& members, char time = 0) {
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const std::string flags = number(0, 2) + number(8, 2) + number(0, 2) + std::string(4, time), crc = number(0, 4);
    const std::string sizes = number(data.size(), 4) + number(data.size(), 4), length = number(name.size(), 2);
    directory +=
        "PK\1\2" + number(0, 2) + flags + crc + sizes + length + std::string(12, '\0') + number(file.size(), 4) + name;
    file +=
        "PK\3\4" + flags + crc + number(0, 8) + length + number(3, 2) + name + "pad" + data + "PK\7\10" + crc + sizes;
  }
  const std::uint64_t at = file.size(), record = at + directory.size(), count = members.size();
  return file + directory + "PK\6\6" + number(44, 8) + std::string(12, '\0') + number(count, 8) + number(count, 8) +
         number(directory.size(), 8) + number(at, 8) + "PK\6\7" + number(0, 4) + number(record, 8) + number(1, 4) +
         "PK\5\6" + number(0, 4) + number(count, 2) + number(count, 2) + number(directory.size(), 4) + number(at, 4) +
         number(0, 2);
}

// What torch.load reads of a file must be what is compared: each of these gave it other weights, or could, and passed.
TEST(ReaderLimits, CheckpointsAreComparedAsPyTorchReadsThem) {
  const Scratch scratch;
  const fs::path first = scratch.path() / "first.pt", second = scratch.path() / "second.pt";
  const Members members = {
      {"a/data.pkl", "pickle"}, {"a/byteorder", "little"}, {"a/data/0", "12345678"}, {"a/version", "3\n"}};
  const std::string honest = zip_of(members);
  const auto compared = [&](const std::string& other) {
    overwrite(first, honest);
    overwrite(second, other);
    const std::string found = different_part(first, second);
    EXPECT_EQ(found.empty(), different_part(second, first).empty());
    return found;
  };
  const auto with = [&](std::size_t place, const std::string& name, const std::string& data) {
    Members other = members;
    other[place] = {name, data};
    return zip_of(other);
  };
  const auto plus = [&](const std::string& name) {
    Members other = members;
    other.emplace_back(name, "1");
    return zip_of(other);
  };
  EXPECT_EQ(compared(zip_of(members, 'x')), "") << "the time of day";
  EXPECT_EQ(compared(with(3, "a/version", "4\n")), "");
  EXPECT_EQ(compared(plus("a/.data/serialization_id")), "");
  EXPECT_EQ(compared(with(2, "a/data/0", "12345679")), "a/data/0");
  EXPECT_EQ(compared(with(1, "a/byteorder", "big")), "a/byteorder");
  EXPECT_EQ(compared(with(3, "a/version", "accuracy 0.999")), "a/version");
  EXPECT_EQ(compared(plus("a/evil/version")), "a/evil/version");
  EXPECT_EQ(compared(plus("evil/version")), "its bytes");
  EXPECT_EQ(compared(honest + "PK\5\6" + std::string(16, '\0')), "its bytes") << "an end that is none";
  EXPECT_EQ(compared(honest + '\0'), "its bytes");

  // Another directory, which readers of the end record see, or those of zip64's.
  const std::string other = with(2, "a/data/0", "87654321");
  const std::size_t end = honest.size() - 22, record = end - 76;
  const std::uint64_t behind = honest.size();
  std::string moved = honest.substr(0, end) + honest.substr(end);
  moved.replace(end + 16, 4, number(behind, 4));
  EXPECT_EQ(compared(moved), "its bytes");
  moved = honest;
  moved.replace(record + 48, 8, number(behind, 8));
  EXPECT_EQ(compared(moved), "its bytes");
  EXPECT_EQ(compared(other.substr(0, record) + honest), "its bytes") << "bytes before the first member";
  moved = honest;
  moved.replace(4 + 22, 2, number(9, 2));  // the local name's length: the data would begin elsewhere
  EXPECT_EQ(compared(moved), "its bytes");
}

}  // namespace
}  // namespace isobit::archive
