// A trace as a file (docs/formats/trace.md): written line by line, sealed at its end, read back only if it is whole.
//
// The file has no name until finish(): neither an error nor a kill leaves a half one, and no file is replaced. A reader
// tells apart, each with the file and a remedy as archive::UserError: what is no trace, a trace of another format, one
// that is cut off, one that was altered, and one without some steps of its window. No torch. One thread per writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "archive/output_file.h"
#include "archive/safetensors.h"
#include "archive/sha256.h"
#include "trace/trace_lines.h"

namespace isobit::trace {

// Bytes of kept values above which a trace stops: they wait in memory, for the file begins with their list.
inline constexpr std::uint64_t kMostValues = std::uint64_t{1} << 30;

// A tensor's elements, row-major, little-endian, under a name that safetensors can have.
struct KeptValues {
  std::string name, dtype;  // dtype as safetensors spells it: "F32"
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};
// "3/forward/LeNet5.fc1/aten::linear/1/0": of the operator's output of this index.
[[nodiscard]] std::string values_name(const OperatorKey& key, std::size_t output);

class TraceWriter {
 public:
  // `path`, and where the header asks for values also the file beside it, must not be there yet.
  TraceWriter(const std::filesystem::path& path, const TraceHeader& header);

  [[nodiscard]] const TraceHeader& header() const { return header_; }
  // Waits, as what keep() is given, for the end of its step: a step that does not end is not in the file.
  void add(const OperatorLine& line);
  // UserError where all that is kept becomes more than kMostValues, or too many tensors.
  void keep(KeptValues values);
  void end_step(const StepEnd& line);
  // The seal, and the file's name. At least one step must have ended (std::logic_error).
  void finish();

  // Of the steps that have ended.
  [[nodiscard]] std::uint64_t bytes() const { return file_.size() + waiting_.size(); }
  [[nodiscard]] std::int64_t operators() const { return operators_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  void append(const std::string& line);
  void flush();
  std::string write_values();

  std::filesystem::path path_;
  TraceHeader header_;
  archive::OutputFile file_;
  std::unique_ptr<archive::OutputFile> values_file_;
  archive::Sha256 digest_;
  std::string waiting_;
  std::string step_;  // lines of the step under way
  std::int64_t step_operators_ = 0;
  std::vector<KeptValues> kept_;
  std::size_t kept_until_ = 0;  // those of steps that have ended
  std::uint64_t kept_bytes_ = 0;
  std::int64_t operators_ = 0, steps_ = 0;
};

struct Trace {
  std::filesystem::path path;
  TraceHeader header;
  std::vector<OperatorLine> operators;  // in the order in which they were done
  std::vector<StepEnd> steps;
  std::string values_sha256;  // "": no values were kept

  // Steps of the window that the trace lacks: the program ended before them.
  [[nodiscard]] std::vector<std::int64_t> missing_steps() const;
};

// Whether the file begins as a trace does: to tell it from an exported run.
[[nodiscard]] bool looks_like_trace(const std::filesystem::path& path);
[[nodiscard]] Trace read_trace(const std::filesystem::path& path);
// The file of values beside the trace, whose digest must be that of the seal. UserError where the trace has none.
[[nodiscard]] archive::Safetensors read_values(const Trace& trace);

}  // namespace isobit::trace
