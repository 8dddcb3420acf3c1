#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "samples/data_files.h"
#include "samples/sample_values.h"
#include "samples/source.h"

namespace isobit::samples {
namespace {

using Texts = std::vector<std::string>;

class Csv : public testing::Test {
 protected:
  std::shared_ptr<const Samples> open(const std::string& text, const std::function<void(Source&)>& change = {}) const {
    write_text(folder_.path() / "t.csv", text);
    Source source;
    source.format = "csv";
    source.folder = folder_.path();
    source.file = "t.csv";
    if (change) change(source);
    return open_source(source);
  }
  // Without the folder.
  std::string error(const std::string& text, const std::function<void(Source&)>& change = {}) const {
    std::string what = error_of([&] { (void)open(text, change); });
    const std::string folder = folder_.path().string() + "/";
    if (what.starts_with(folder)) what.erase(0, folder.size());
    return what;
  }
  ScratchFolder folder_;
};

TEST_F(Csv, HasInputsAndATarget) {
  const auto samples = open("a,label,b\n1,3,0.1\n-2.5e1,0,1e-46\n");
  EXPECT_EQ(samples->count(), 2);
  EXPECT_EQ(samples->fields()[0], (Field{"inputs", Element::float32, {2}, Role::input}));
  EXPECT_EQ(samples->fields()[1], (Field{"targets", Element::int64, {}, Role::target}));
  EXPECT_EQ(values<float>(*samples, 0), (std::vector<float>{1, 0.1f, -25, 0}));
  EXPECT_EQ(values<std::int64_t>(*samples, 1, {1, 0}), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(samples->name(1), "t.csv, line 3");
}

TEST_F(Csv, ColumnsAreTakenByName) {
  const auto samples = open("w,a,s,b,n,t1,t2\n0.5,1,anna,2,3,4.5,-1\n2,5,\"b, c\",6,0,8.25,1\n", [](Source& source) {
    source.inputs = {"b", "a"};
    source.targets = {"t2", "t1"};
    source.group = "s";
    source.weight = "w";
    source.count = "n";
    source.whole_targets = false;
  });
  EXPECT_EQ(samples->fields()[1], (Field{"targets", Element::float32, {2}, Role::target}));
  EXPECT_EQ(values<float>(*samples, 0), (std::vector<float>{2, 1, 6, 5}));
  EXPECT_EQ(values<float>(*samples, 1), (std::vector<float>{-1, 4.5, 1, 8.25}));
  EXPECT_EQ(samples->group(0), "anna");
  EXPECT_EQ(samples->group(1), "b, c");
  EXPECT_EQ(samples->weight(0), 0.5);
  EXPECT_EQ(samples->targets(0), 3);
  EXPECT_EQ(samples->targets(1), 0);
}

TEST_F(Csv, QuotesLineEndsAndMark) {
  const auto samples = open("\xef\xbb\xbf\"a\",\"the \"\"s\"\"\",y\r\n\"1\",\"x\r\ny\",2\r\n3,z,\"4\"",
                            [](Source& source) { source.group = "the \"s\""; });
  EXPECT_EQ(values<float>(*samples, 0), (std::vector<float>{1, 3}));
  EXPECT_EQ(values<std::int64_t>(*samples, 1), (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(samples->group(0), "x\r\ny");
  EXPECT_EQ(samples->name(0), "t.csv, line 2");
  EXPECT_EQ(samples->name(1), "t.csv, line 4");  // the quoted line end is one, too
}

TEST_F(Csv, ErrorsHaveLineAndColumn) {
  EXPECT_EQ(error("a,y\n1,2\n3\n"),
            "t.csv, line 3, column 2: has 1 cells, the header has 2 (every line has the header's "
            "number of cells; a comma within a cell needs quotes)");
  EXPECT_EQ(error("a,y\n1,2,5,6\n").substr(0, 46), "t.csv, line 2, column 3: has 4 cells, the head");
  EXPECT_EQ(error("a,y\n1,2\nx,2\n"), "t.csv, line 3, column 1 (a): 'x' is no number (write it as 12, -0.5 or 1e-3)");
  EXPECT_EQ(error("a,y\n1,2.0\n").substr(0, 53), "t.csv, line 2, column 2 (y): '2.0' is no whole number");
  EXPECT_EQ(error("a,y\n,2\n"), "t.csv, line 2, column 1 (a): the cell is empty (fill it in, or leave the line out)");
  EXPECT_EQ(error("a,y\n1,\n").substr(0, 46), "t.csv, line 2, column 2 (y): the cell is empty");
  EXPECT_EQ(error("a,y\n1,2\n\n"), "t.csv, line 3: is empty (take it out)");
  for (const char* value : {"nan", "inf", "-infinity", "1e39", "\"1e999999999999999999999\"", "3.40282357e38",
                            "1e9223372036854775807", "-17e9223372036854775807", "0.1e9223372036854775807"}) {
    EXPECT_NE(error(std::string("a,y\n") + value + ",2\n").find("is not finite as a float32"), std::string::npos)
        << value;
  }
  for (const char* value : {" 1", "1 ", "+1", "0x10", "1e", "1,", "--1", "1.2.3", "'1'"})
    EXPECT_NE(error(std::string("a,y\n") + value + ",2\n"), "") << value;
  EXPECT_NE(error("a,y\n\"1,2\n").find("line 2, column 1 (a): '' is no cell: its quote is not closed"),
            std::string::npos);
  EXPECT_NE(error("a,y\n\"1\"x,2\n").find("text stands behind its closing quote"), std::string::npos);
  EXPECT_NE(error("a,y\n1\"2,2\n").find("a quote stands in a cell"), std::string::npos);
  EXPECT_NE(error("a,y\r1,2\r").find("a carriage return"), std::string::npos);
  EXPECT_EQ(error(""), "t.csv: is empty (a table begins with a line of column names)");
  EXPECT_EQ(error("a,y\n"), "t.csv: has no line after its header (add the samples)");
  EXPECT_NE(error(",y\n1,2\n").find("line 1, column 1: the column has no name"), std::string::npos);
  EXPECT_EQ(error("a,y,a\n1,2,3\n"), "t.csv, line 1, column 3 (a): column 1 has the same name (rename one of them)");
}

TEST_F(Csv, NamesAreLookedUp) {
  EXPECT_EQ(error("height,y\n1,2\n", [](Source& s) { s.inputs = {"heihgt"}; }),
            "t.csv: has no column 'heihgt' (did you mean 'height'?)");
  EXPECT_NE(error("a;y\n1;2\n", [](Source& s) { s.targets = {"y"}; }).find("separate the cells by commas"),
            std::string::npos);
  EXPECT_NE(error("a,b\n1,2\n").find("has no column target, label or y; it has a, b"), std::string::npos);
  EXPECT_NE(error("a,y,label\n1,2,3\n").find("several columns that may be the target: label, y"), std::string::npos);
  EXPECT_NE(error("y\n1\n").find("no column left for the inputs"), std::string::npos);
  EXPECT_NE(error("a,y\n1,2\n",
                  [](Source& s) {
                    s.inputs = {"a", "y"};
                  })
                .find("column 'y' is asked for twice"),
            std::string::npos);
  EXPECT_EQ(error("a,y,w\n1,2,-1\n", [](Source& s) { s.weight = "w"; }),
            "t.csv, line 2, column 3 (w): is -1 (it is 0 or more)");
  EXPECT_EQ(error("a,y,n\n1,2,-1\n", [](Source& s) { s.count = "n"; }),
            "t.csv, line 2, column 3 (n): is -1 (it is 0 or more)");
}

TEST_F(Csv, NumbersAreRoundedOnce) {
  // strtof rounds correctly in glibc: the same for numbers of any length, and for ties that two roundings would miss.
  std::mt19937 random(7);
  std::string text = "a,y\n";
  Texts spelt = {"1.00000005960464477539062500000001",
                 "1.000000059604644775390625",
                 "8388608.5",
                 "1.4e-45",
                 "7.1e-46",
                 "3.4028235677973366e38",
                 "0.000000000000000000000000000000000000000000000000000000000001e60",
                 "-0",
                 "1e-400",
                 "1e-9223372036854775808",  // the ends of what an exponent is read into: 0, and refused below
                 "-0.001e-9223372036854775807",
                 "0.0e99999",
                 "100000000000000000000000000000000000000000000000e-40"};
  for (int i = 0; i < 3000; ++i) {
    std::string number = random() % 2 == 0 ? "-" : "";
    for (std::size_t n = 1 + random() % 25; n > 0; --n) number += static_cast<char>('0' + random() % 10);
    number += '.';
    for (std::size_t n = random() % 25; n > 0; --n) number += static_cast<char>('0' + random() % 10);
    number += "e" + std::to_string(static_cast<int>(random() % 60) - 45);
    if (std::isfinite(std::strtof(number.c_str(), nullptr))) spelt.push_back(number);
  }
  for (const std::string& number : spelt) text += number + ",0\n";
  const auto read = values<float>(*open(text), 0);
  for (std::size_t i = 0; i < spelt.size(); ++i) {
    const float expected = std::strtof(spelt[i].c_str(), nullptr);
    EXPECT_EQ(read[i], expected) << spelt[i];
    EXPECT_EQ(std::signbit(read[i]), std::signbit(expected)) << spelt[i];
  }
}

// RFC 4180 once more, as plainly as it can be said: the rows of cells, or nothing where the text is none.
bool plain_rows(const std::string& text, std::vector<Texts>& rows) {
  std::size_t at = 0;
  while (at < text.size()) {
    rows.emplace_back();
    for (bool more = true; more;) {
      std::string cell;
      if (at < text.size() && text[at] == '"') {
        for (++at;; ++at) {
          if (at == text.size()) return false;
          if (text[at] == '"' && text.substr(at, 2) != "\"\"") break;
          if (text[at] == '"') ++at;
          cell += text[at];
        }
        ++at;
      } else {
        while (at < text.size() && text[at] != ',' && text[at] != '\n' && text.substr(at, 2) != "\r\n") {
          if (text[at] == '"' || text[at] == '\r') return false;
          cell += text[at++];
        }
      }
      rows.back().push_back(cell);
      more = at < text.size() && text[at] == ',';
      if (more) {
        ++at;
      } else if (text.substr(at, 2) == "\r\n") {
        at += 2;
      } else if (at < text.size()) {
        if (text[at] != '\n') return false;
        ++at;
      }
    }
  }
  return true;
}

// Whether a table of the columns a, s, y is sound, and its groups.
bool plain_table(const std::string& text, Texts& groups, std::vector<float>& numbers) {
  std::vector<Texts> rows;
  if (!plain_rows(text, rows) || rows.size() < 2 || rows[0] != Texts{"a", "s", "y"}) return false;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() != 3) return false;
    char* end = nullptr;
    numbers.push_back(std::strtof(rows[i][0].c_str(), &end));
    if (rows[i][0].empty() || *end != '\0' || rows[i][0].find_first_not_of("0123456789.-") != std::string::npos)
      return false;
    if (rows[i][1].empty() || rows[i][2].empty() || rows[i][2].size() > 15) return false;
    if (rows[i][2].find_first_not_of("0123456789") != std::string::npos) return false;
    groups.push_back(rows[i][1]);
  }
  return true;
}

TEST_F(Csv, AgreesWithAPlainParserOnRandomTables) {
  std::mt19937 random(11);
  const Texts pieces = {"1", "23",    "-4.5",  ",",       "\n", "\r\n", "\"",      "\"\"",
                        "x", "0.125", "\"1\"", "\"a,b\"", "\r", ",,",   "\"c\nd\""};
  const auto cell = [&](bool text) {
    const Texts sound = text ? Texts{"g", "\"g\"", "\"a,b\"", "\"q\"\"r\"", "\"l\nm\"", "h h"}
                             : Texts{"1", "-2.5", "\"3\"", "0.1", "77"};
    return random() % 60 == 0 ? pieces[random() % pieces.size()] : sound[random() % sound.size()];
  };
  int sound = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string text = "a,s,y\n";
    for (std::size_t row = random() % 6 + 1; row > 0; --row)
      text +=
          cell(false) + "," + cell(true) + "," + std::to_string(random() % 100) + (random() % 2 == 0 ? "\n" : "\r\n");
    if (random() % 4 == 0) text.insert(6 + random() % (text.size() - 6), pieces[random() % pieces.size()]);
    if (random() % 4 == 0) text.pop_back();
    Texts groups;
    std::vector<float> numbers;
    const bool expected = plain_table(text, groups, numbers);
    std::shared_ptr<const Samples> samples;
    const std::string problem = error_of([&] { samples = open(text, [](Source& s) { s.group = "s"; }); });
    ASSERT_EQ(problem.empty(), expected) << text << "\n" << problem;
    (expected ? sound : refused) += 1;
    if (!expected) continue;
    ASSERT_EQ(values<float>(*samples, 0), numbers) << text;
    for (std::size_t i = 0; i < groups.size(); ++i) ASSERT_EQ(samples->group(static_cast<std::int64_t>(i)), groups[i]);
  }
  EXPECT_GT(sound, 200);
  EXPECT_GT(refused, 200);
}

TEST_F(Csv, TruncatedAtEveryByteItIsReadOrRefused) {
  const std::string text = "\xef\xbb\xbf\"a\",s,y\r\n1.5,\"x\"\"\n\",3\n-2,q,44\n";
  for (std::size_t size = 0; size <= text.size(); ++size)
    (void)error(text.substr(0, size), [](Source& s) { s.group = "s"; });
}

}  // namespace
}  // namespace isobit::samples
