#include "study/text_diff.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace isobit::study {
namespace {

// Applies a unified diff to `a` by its line numbers, and checks every line that it says stands there.
std::string patched(const std::string& a, const std::string& diff) {
  std::vector<std::string> lines;
  std::string line, result;
  for (std::istringstream in(a); std::getline(in, line);) lines.push_back(line + "\n");
  if (!a.empty() && a.back() != '\n') lines.back().pop_back();
  std::size_t next = 0;
  std::string* last = nullptr;
  std::string added;
  std::istringstream in(diff);
  std::getline(in, line);
  std::getline(in, line);
  while (std::getline(in, line)) {
    if (line.rfind("@@ -", 0) == 0) {
      std::size_t first = std::stoul(line.substr(4));
      const bool none = line.substr(4, line.find(" +") - 4).ends_with(",0");
      if (!none) --first;
      while (next < first) result += lines.at(next++);
    } else if (line[0] == '+') {
      result += line.substr(1) + "\n";
    } else if (line[0] == '\\') {
      // Of the line before: it has no newline. An expected one of `a` was compared without.
      if (last == nullptr) result.pop_back();
    } else {
      const std::string there = lines.at(next++);
      EXPECT_EQ(there.substr(0, line.size() - 1), line.substr(1));
      if (line[0] == ' ') result += there;
    }
    last = !line.empty() && line[0] == '-' ? &added : !line.empty() && line[0] == ' ' ? &added : nullptr;
  }
  while (next < lines.size()) result += lines.at(next++);
  return result;
}

TEST(TextDiff, GivesTheOtherText) {
  std::mt19937 draw(7);
  for (int i = 0; i < 400; ++i) {
    std::string a, b;
    const auto lines = draw() % 30;
    for (std::uint32_t l = 0; l < lines; ++l) {
      const std::string line = std::string(1, static_cast<char>('a' + draw() % 4)) + "\n";
      if (draw() % 5 != 0) a += line;
      if (draw() % 5 != 0) b += line;
    }
    if (draw() % 4 == 0 && !a.empty()) a.pop_back();
    if (draw() % 4 == 0 && !b.empty()) b.pop_back();
    const std::string diff = unified_diff("f", a, b);
    if (a == b) {
      EXPECT_EQ(diff, "");
    } else {
      EXPECT_EQ(patched(a, diff), b) << "a:\n" << a << "\nb:\n" << b << "\ndiff:\n" << diff;
    }
  }
}

TEST(TextDiff, IsShort) {
  EXPECT_EQ(unified_diff("t.py", "a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nX\nf\ng\nh\n"),
            "--- a/t.py\n+++ b/t.py\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+X\n f\n g\n h\n");
  EXPECT_EQ(unified_diff("t.py", "", "a\n"), "--- a/t.py\n+++ b/t.py\n@@ -0,0 +1 @@\n+a\n");
}

TEST(TextDiff, OfLongTextsTheMiddleIsReplaced) {
  std::string a, b;
  for (int i = 0; i < 4000; ++i) a += "a" + std::to_string(i) + "\n", b += "b" + std::to_string(i) + "\n";
  EXPECT_EQ(patched(a, unified_diff("f", a, b)), b);
}

}  // namespace
}  // namespace isobit::study
