// Every target over its seeds, its corpus (corpus/<target>) and changed inputs of both, the same ones each time: what
// scripts/fuzz does for hours, in seconds and without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "fuzz/target.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> corpus_of(const Target& target) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(ISOBIT_FUZZ_CORPUS) / target.name, none))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::string> inputs;
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

std::string shown(const std::string& input) {
  std::string text;
  for (const char c : input.substr(0, 2000)) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, c >= ' ' && c < 127 ? "%c" : "\\x%02x", static_cast<unsigned char>(c));
    text += escaped;
  }
  return text;
}

// $ISOBIT_FUZZ_TIMES: so many times as many changed inputs.
int times() {
  const char* given = std::getenv("ISOBIT_FUZZ_TIMES");
  return given == nullptr ? 1 : std::max(1, std::atoi(given));
}

class Readers : public ::testing::TestWithParam<Target> {
 protected:
  static bool run(const std::string& input) {
    try {
      GetParam().run(input);
      return true;
    } catch (const std::exception& error) {
      ADD_FAILURE() << GetParam().name << ": " << error.what() << "\ninput: " << shown(input);
      return false;
    }
  }
};

TEST_P(Readers, RefuseOrReadWhatAnybodyWrote) {
  std::vector<std::string> inputs = GetParam().seeds();
  for (std::string& input : corpus_of(GetParam())) inputs.push_back(std::move(input));
  ASSERT_FALSE(inputs.empty());
  run("");
  for (const std::string& input : inputs) run(input);
  std::erase_if(inputs, [](const std::string& input) { return input.size() > kLongestChanged; });
  for (int i = 0; i < GetParam().mutations * times(); ++i) {
    const std::string input =
        mutated(inputs[static_cast<std::size_t>(i) % inputs.size()], inputs, static_cast<std::uint64_t>(i));
    if (!run(input)) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Readers, ::testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace isobit::fuzz
