#include "bench/saved_rows.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "archive/environment.h"
#include "archive/files.h"
#include "archive/user_error.h"
#include "bench/bench.h"

namespace isobit::bench {
namespace {

namespace fs = std::filesystem;

class SavedRowsTest : public ::testing::Test {
 protected:
  SavedRowsTest() : folder_(fs::temp_directory_path() / ("isobit-saved-rows-" + archive::random_suffix())) {
    fs::create_directories(folder_);
  }
  ~SavedRowsTest() override { fs::remove_all(folder_); }

  [[nodiscard]] fs::path file() const { return folder_ / "rows.jsonl"; }
  [[nodiscard]] SavedRows rows() const {
    return {file(), {"isobit bench step --rounds 3", "step", {{"torch", "2.13.0"}}}};
  }
  void write(const std::string& text) const { std::ofstream(file(), std::ios::binary) << text; }
  [[nodiscard]] std::string text() const {
    std::stringstream all;
    all << std::ifstream(file()).rdbuf();
    return all.str();
  }
  [[nodiscard]] std::vector<nlohmann::json> read() const {
    std::vector<nlohmann::json> found;
    std::ifstream in(file());
    for (std::string line; std::getline(in, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }
  // The error says the line, and the file stays as it was.
  void expect_refused(const std::string& content, const std::string& place, const std::string& problem) const {
    write(content);
    try {
      static_cast<void>(rows());
      ADD_FAILURE() << "taken: " << content;
    } catch (const archive::UserError& error) {
      EXPECT_EQ(error.place(), file().string() + place);
      EXPECT_NE(error.problem().find(problem), std::string::npos) << error.what();
      EXPECT_NE(error.remedy(), "");
    }
    EXPECT_EQ(text(), content);
  }

  fs::path folder_;
};

TEST_F(SavedRowsTest, SayWhatWasMeasuredWhereWhenAndAgainstWhat) {
  const SavedRows saved = rows();
  EXPECT_FALSE(fs::exists(file()));  // a measurement that is broken off leaves none
  saved.append({{"model", "mlp"}, {"stock_ms", 2.5}, {"isobit_ms", 1.25}, {"ratio", 0.5}}, 0.25);
  saved.append({{"model", "unet"}}, {});
  const auto found = read();
  ASSERT_EQ(found.size(), 2U);
  const nlohmann::json& row = found[0];
  EXPECT_EQ(row.at("format"), "isobit-bench-saved-1");
  EXPECT_EQ(row.at("what"), "step");
  EXPECT_EQ(row.at("command"), "isobit bench step --rounds 3");
  EXPECT_EQ(row.at("commit"), archive::program_version());
  EXPECT_EQ(row.at("peers").at("torch"), "2.13.0");
  EXPECT_EQ(row.at("machine").at("cpu"), archive::cpu_name());
  EXPECT_GT(row.at("machine").at("cores"), 0);
  EXPECT_TRUE(row.at("machine").at("features").is_array());
  const std::string date = row.at("date_utc");
  EXPECT_EQ(date.size(), 20U);
  EXPECT_EQ(date.substr(0, 2) + date[10] + date[19], "20TZ");
  EXPECT_EQ(row.at("waited"), 0.25);
  EXPECT_EQ(row.at("model"), "mlp");
  EXPECT_EQ(row.at("ratio"), 0.5);
  EXPECT_TRUE(found[1].at("waited").is_null());
}

TEST_F(SavedRowsTest, AreAddedToThoseThatAreThere) {
  rows().append({{"model", "mlp"}}, {});
  const std::string before = text();
  rows().append({{"model", "lenet5"}}, {});
  EXPECT_EQ(text().substr(0, before.size()), before);
  EXPECT_EQ(read().size(), 2U);
}

TEST_F(SavedRowsTest, AnotherFileIsRefusedAndKept) {
  rows().append({{"model", "mlp"}}, {});
  const std::string row = text();
  expect_refused("a letter\n", ":1", "no row that isobit bench saved");
  expect_refused("{\"format\": \"isobit-bench-rows-1\"}\n", ":1", "no row");
  expect_refused("{\"format\": 7}\n", ":1", "no row");
  expect_refused("[]\n", ":1", "no row");
  expect_refused(row + "\n", ":2", "no row");
  expect_refused(row + row.substr(0, 40), ":2", "the line has no end");
  expect_refused(row + row.substr(0, row.size() - 1), ":2", "the line has no end");
}

TEST_F(SavedRowsTest, AFolderAndAMissingOneAreRefused) {
  const Measurement some{"isobit bench ops", "ops", {}};
  EXPECT_THROW(SavedRows(folder_, some), archive::UserError);
  EXPECT_THROW(SavedRows(folder_ / "missing" / "rows.jsonl", some), archive::UserError);
}

TEST_F(SavedRowsTest, AFileThatBecameAnotherIsRefusedAtTheNextRow) {
  const SavedRows saved = rows();
  write("a letter\n");
  EXPECT_THROW(saved.append({{"model", "mlp"}}, {}), archive::UserError);
  EXPECT_EQ(text(), "a letter\n");
}

TEST_F(SavedRowsTest, ARowThatDoesNotFitIsTakenBack) {
  const SavedRows saved = rows();
  saved.append({{"model", "mlp"}}, {});
  const std::string before = text();
  archive::inject_write_fault(ENOSPC, 40);
  EXPECT_THROW(saved.append({{"model", "unet"}}, {}), archive::UserError);
  archive::inject_write_fault(0, 0);
  EXPECT_EQ(text(), before);
}

TEST_F(SavedRowsTest, OfProcessesSideBySideAreAllWhole) {
  constexpr int kProcesses = 4, kRows = 25;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int code = 0;
      try {
        const SavedRows saved = rows();
        for (int i = 0; i < kRows; ++i) saved.append({{"model", std::string(3000, 'a')}}, {});
      } catch (const std::exception&) {
        code = 1;
      }
      _exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read().size(), std::size_t{kProcesses} * kRows);
}

TEST_F(SavedRowsTest, AFigureMayNotTakeTheNameOfWhatAllRowsHave) {
  EXPECT_THROW(rows().append({{"machine", "mine"}}, {}), std::logic_error);
}

TEST(CommandOf, MeasuresTheSameAgain) {
  BenchArguments arguments;
  arguments.what = "step";
  arguments.options.models = {"mlp", "unet"};
  arguments.options.threads = {1, 2};
  arguments.options.rounds = 9;
  arguments.options.disturb = 50;
  arguments.options.inference = true;
  arguments.json = true;
  arguments.save = "rows.jsonl";
  EXPECT_EQ(command_of(arguments),
            "isobit bench step --models mlp,unet --threads 1,2 --rounds 9 --disturb 50 --inference");
  arguments = {};
  arguments.what = "ops";
  arguments.options.filter = "mm x";
  arguments.options.isas = {"avx2"};
  arguments.options.products = "exact3";
  EXPECT_EQ(command_of(arguments),
            "isobit bench ops --filter 'mm x' --threads 1 --isa avx2 --products exact3 --rounds 15");
}

}  // namespace
}  // namespace isobit::bench
