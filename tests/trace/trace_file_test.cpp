#include "trace/trace_file.h"

#include <cstring>
#include <fstream>

#include "archive/files.h"
#include "archive/small_run.h"
#include "archive/user_error.h"
#include "trace/small_trace.h"

namespace isobit::trace {
namespace {

using archive::Scratch;
using archive::UserError;

std::string problem_of(const std::filesystem::path& path) {
  try {
    (void)read_trace(path);
  } catch (const UserError& error) {
    return error.problem();
  }
  return "";
}

void put(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// With a seal of its own, as anybody can write it.
std::string sealed(const std::string& lines) { return lines + format_line(Seal{archive::sha256(lines), ""}); }

OperatorLine full_line() {
  OperatorLine line = small_line(3, "aten::conv2d", 1);
  line.inputs.push_back({"float32", {0}, "", "sparse", {}, {}});
  line.outputs[0].samples = {{0, "3f800000"}, {5, "7fc00000"}};
  line.outputs[0].statistics = Statistics{-1.5, 0.1, 1e-300, 1, 2};
  line.outputs.push_back(small_tensor("statistics of nothing"));
  line.outputs[1].statistics = Statistics{};
  return line;
}

TEST(TraceLines, OneSpelling) {
  const OperatorLine line = full_line();
  std::string text = format_line(line);
  text.pop_back();
  OperatorLine again;
  ASSERT_TRUE(parse_line(text, again));
  EXPECT_EQ(again, line);
  OperatorLine other;
  for (const char* spelling : {" ", "\n"}) EXPECT_FALSE(parse_line(text + spelling, other)) << spelling;
  EXPECT_FALSE(parse_line(text.substr(0, text.size() - 1), other));
  std::string reordered = text;
  reordered.replace(reordered.find("\"step\":3"), 8, "\"step\":03");
  EXPECT_FALSE(parse_line(reordered, other));
}

TEST(TraceLines, RefusesWhatNobodyWrites) {
  OperatorLine line = full_line(), read;
  const auto refused = [&](auto&& alter) {
    OperatorLine altered = line;
    alter(altered);
    std::string text = format_line(altered);
    text.pop_back();
    return !parse_line(text, read);
  };
  EXPECT_TRUE(refused([](OperatorLine& l) { l.outputs[0].fingerprint = "xyz"; }));
  EXPECT_TRUE(refused([](OperatorLine& l) { l.outputs[0].fingerprint = ""; }));
  EXPECT_TRUE(refused([](OperatorLine& l) { l.inputs[1].fingerprint = std::string(32, 'a'); }));
  EXPECT_TRUE(refused([](OperatorLine& l) { l.outputs[0].shape = {-1}; }));
  EXPECT_TRUE(refused([](OperatorLine& l) { l.outputs[0].samples[0].bits = "XY"; }));
  EXPECT_FALSE(refused([](OperatorLine&) {}));
}

TEST(TraceLines, Windows) {
  EXPECT_EQ(parse_window("100:3"), (Window{100, 3}));
  EXPECT_EQ(parse_window("7"), (Window{7, 1}));
  for (const char* bad :
       {"", ":", "0:1", "1:0", "1:", ":2", "-1:2", "1:2:3", " 1:2", "1e3:2", "99999999999999999999"}) {
    EXPECT_FALSE(parse_window(bad)) << bad;
  }
}

TEST(TraceFile, ReadsWhatWasWritten) {
  const Scratch scratch;
  const Trace trace = read_trace(write_small(scratch.path() / "t"));
  EXPECT_EQ(trace.header, small_header());
  ASSERT_EQ(trace.operators.size(), 6u);
  EXPECT_EQ(trace.operators[5], small_line(4, "aten::linear", 2));
  EXPECT_EQ(trace.steps, (std::vector<StepEnd>{{3, 3, ""}, {4, 3, ""}}));
  EXPECT_TRUE(trace.missing_steps().empty());
  EXPECT_TRUE(looks_like_trace(scratch.path() / "t"));
}

// Every prefix is cut off, and every flipped bit is found: never a trace.
TEST(TraceFile, NeitherCutsNorFlippedBitsPass) {
  const Scratch scratch;
  const std::string content = archive::read_file(write_small(scratch.path() / "t"));
  const auto bad = scratch.path() / "bad";
  for (std::size_t length = 0; length < content.size(); ++length) {
    put(bad, content.substr(0, length));
    const std::string problem = problem_of(bad);
    ASSERT_NE(problem, "") << length;
    if (length > 300) {
      ASSERT_NE(problem.find("cut off"), std::string::npos) << length << problem;
    }
  }
  for (std::size_t i = 0; i < content.size(); ++i) {
    std::string altered = content;
    altered[i] = static_cast<char>(altered[i] ^ 1 << i % 8);
    put(bad, altered);
    ASSERT_NE(problem_of(bad), "") << i;
  }
}

TEST(TraceFile, TellsApartWhatIsWrong) {
  const Scratch scratch;
  const std::string content = archive::read_file(write_small(scratch.path() / "t"));
  const std::string lines = content.substr(0, content.rfind("{\"sealed\""));
  const auto problem = [&](const std::string& text) {
    put(scratch.path() / "bad", text);
    return problem_of(scratch.path() / "bad");
  };
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_EQ(problem(sealed(lines)), "");
  EXPECT_EQ(problem("hello\n"), "is no trace of isobit");
  EXPECT_NE(problem(replaced(content, "trace-1", "trace-2")).find("has the format isobit-trace-2"), std::string::npos);
  EXPECT_NE(problem(replaced(content, "aten::relu", "aten::rely")).find("was altered"), std::string::npos);
  EXPECT_NE(problem(sealed(replaced(lines, "isobit-0.1", "pudding-1"))).find("was made under 'pudding-1'"),
            std::string::npos);
  // Sealed anew, but not what a writer writes.
  const std::string second = lines.substr(lines.find('\n') + 1);
  const std::string header = lines.substr(0, lines.find('\n') + 1);
  EXPECT_NE(problem(sealed(header)).find("has no step"), std::string::npos);
  const std::string relu = format_line(small_line(3, "aten::relu", 1));
  EXPECT_NE(problem(sealed(replaced(lines, relu, ""))).find("does not fit"), std::string::npos);
  EXPECT_NE(problem(sealed(replaced(lines, "\"occurrence\":2", "\"occurrence\":3"))).find("out of order"),
            std::string::npos);
  EXPECT_NE(problem(sealed(replaced(lines, "{\"end\":3", "{\"end\":9"))).find("does not fit"), std::string::npos);
  EXPECT_NE(problem(sealed(lines + format_line(small_line(4, "aten::relu", 2)))).find("does not belong here"),
            std::string::npos);
  EXPECT_NE(problem(sealed(header + "[]\n" + second)).find("line 2: is no line"), std::string::npos);
}

TEST(TraceFile, NamesMissingSteps) {
  const Scratch scratch;
  TraceHeader header = small_header();
  header.window = {3, 5};
  {
    TraceWriter writer(scratch.path() / "t", header);
    writer.add(small_line(3, "aten::relu", 1));
    writer.end_step({3, 1, ""});
    writer.end_step({5, 0, ""});
    writer.add(small_line(6, "aten::relu", 1));  // of a step that does not end
    writer.finish();
  }
  EXPECT_EQ(read_trace(scratch.path() / "t").operators.size(), 1u);
  EXPECT_EQ(read_trace(scratch.path() / "t").missing_steps(), (std::vector<std::int64_t>{4, 6, 7}));
}

TEST(TraceFile, AnUnfinishedWriterLeavesNothing) {
  const Scratch scratch;
  {
    TraceWriter writer(scratch.path() / "t", small_header("all"));
    writer.add(small_line(3, "aten::relu", 1));
    writer.end_step({3, 1, ""});
  }
  EXPECT_TRUE(archive::names_in(scratch.path()).empty() ||
              archive::names_in(scratch.path()) == std::vector<std::string>{"cache"});
  write_small(scratch.path() / "t");
  EXPECT_THROW(TraceWriter(scratch.path() / "t", small_header()), UserError);  // nothing is replaced
}

TEST(TraceFile, ValuesBelongToTheirTrace) {
  const Scratch scratch;
  const auto path = scratch.path() / "t";
  const float values[] = {1, 2};
  {
    TraceWriter writer(path, small_header("all"));
    const OperatorLine line = small_line(3, "aten::relu", 1);
    writer.add(line);
    KeptValues kept{values_name(line.key, 0), "F32", {2}, std::vector<std::byte>(8)};
    std::memcpy(kept.bytes.data(), values, 8);
    writer.keep(kept);
    writer.end_step({3, 1, ""});
    writer.finish();
  }
  const Trace trace = read_trace(path);
  const archive::Safetensors kept = read_values(trace);
  ASSERT_NE(kept.find("3/forward/model.fc/aten::relu/1/0"), nullptr);
  EXPECT_EQ(std::memcmp(kept.find("3/forward/model.fc/aten::relu/1/0")->data.data(), values, 8), 0);
  std::string content = archive::read_file(path.string() + kValuesEnding);
  content.back() = static_cast<char>(content.back() ^ 1);
  put(path.string() + kValuesEnding, content);
  EXPECT_THROW((void)read_values(trace), UserError);
}

}  // namespace
}  // namespace isobit::trace
