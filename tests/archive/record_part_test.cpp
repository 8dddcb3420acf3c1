#include "archive/record_part.h"

#include <stdexcept>

#include "archive/run_writer.h"
#include "small_run.h"

namespace isobit::archive {
namespace {

constexpr const char* kPart = "{\"format\": \"isobit-machine-1\", \"cores\": 4}\n";
constexpr const char* kOther = "{\"format\": \"isobit-machine-1\", \"cores\": 8}\n";

// Finished after eight steps.
fs::path finish(RunWriter& writer, std::int64_t from = 1) {
  write_steps(writer, from, 8);
  writer.finish(kWeights);
  return writer.folder();
}

TEST(RecordPart, NamesAndFilesBelongTogether) {
  EXPECT_EQ(part_file("machine"), "part-machine.json");
  EXPECT_EQ(part_name("part-machine.json"), "machine");
  for (const char* file :
       {"part-.json", "part--a.json", "part-A.json", "part-a/b.json", "machine.json", "part-a.jsonl"})
    EXPECT_EQ(part_name(file), "") << file;
  EXPECT_THROW(static_cast<void>(part_file("../machine")), std::invalid_argument);
}

TEST(RecordPart, IsSealedAndRead) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  writer.write_part("machine", kPart);
  writer.write_part("machine", kOther);  // in its place
  const RunRecord record = RunRecord::open(finish(writer));
  EXPECT_EQ(record.parts(), (std::map<std::string, std::string>{{"machine", kOther}}));
}

TEST(RecordPart, OutlivesAnInterruption) {
  const Scratch scratch;
  fs::path run;
  {
    RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
    run = writer.folder();
    write_steps(writer, 1, 4);
    writer.write_part("machine", kPart);
  }
  RunWriter writer = RunWriter::resume(run, small_inputs().environment);
  EXPECT_EQ(RunRecord::open(finish(writer, writer.checkpoint()->step() + 1)).parts().at("machine"), kPart);
}

// Its writer was killed between the file and the state that names it.
TEST(RecordPart, AFileThatNoStateNamesIsDropped) {
  const Scratch scratch;
  fs::path run;
  {
    RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
    run = writer.folder();
    write_steps(writer, 1, 4);
  }
  write_file(run / "part-machine.json", kPart);
  RunWriter writer = RunWriter::resume(run, small_inputs().environment);
  const RunRecord record = RunRecord::open(finish(writer, writer.checkpoint()->step() + 1));
  EXPECT_TRUE(record.parts().empty());
  EXPECT_FALSE(is_there(run / "part-machine.json"));
}

TEST(RecordPart, WhatNoReaderWouldTakeIsNotWritten) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  for (const char* text : {"", "[1]", "{}", "{\"format\": 1}", "{\"format\": \"a\""}) {
    EXPECT_THROW(writer.write_part("machine", text), std::exception) << text;
  }
  EXPECT_TRUE(RunRecord::open(finish(writer)).parts().empty());
}

// After the seal it is damage, as any other file's.
TEST(RecordPart, AnAlteredOneIsDamage) {
  const Scratch scratch;
  RunWriter writer = RunWriter::create(scratch.runs(), small_inputs());
  writer.write_part("machine", kPart);
  const fs::path run = finish(writer);
  write_file(run / "part-machine.json", kOther);
  EXPECT_THROW(static_cast<void>(RunRecord::open(run)), UserError);
  write_file(run / "part-machine.json", kPart);
  EXPECT_NO_THROW(static_cast<void>(RunRecord::open(run)));
  write_file(run / "part-more.json", kPart);
  EXPECT_THROW(static_cast<void>(RunRecord::open(run)), UserError);
}

}  // namespace
}  // namespace isobit::archive
