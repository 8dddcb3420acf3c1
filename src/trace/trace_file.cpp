#include "trace/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "archive/files.h"
#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::trace {
namespace {

using archive::UserError;

constexpr std::size_t kWriteAt = 1 << 16;
constexpr std::size_t kMostTensors = 9000;  // whose list a reader takes (archive/json_text.h)
constexpr std::string_view kBeginning = R"({"format":"isobit-trace-)";
constexpr const char* kAgain = "copy the whole file again, or make the trace again";

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::filesystem::path values_path(const std::filesystem::path& trace) { return trace.string() + kValuesEnding; }

// The lines with their newlines; what stands behind the last newline comes last.
std::vector<std::string_view> lines_of(std::string_view content) {
  std::vector<std::string_view> lines;
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size() - 1);
    lines.push_back(content.substr(0, end + 1));
    content.remove_prefix(end + 1);
  }
  return lines;
}

std::string_view without_newline(std::string_view line) {
  return line.ends_with('\n') ? line.substr(0, line.size() - 1) : line;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : content_(archive::read_file(path)), lines_(lines_of(content_)) {
    trace_.path = path;
  }

  Trace read() {
    read_header();
    read_seal();
    for (line_ = 1; line_ + 1 < lines_.size(); ++line_) read_line(without_newline(lines_[line_]));
    if (operators_ != 0) fail(fmt::format("line {}: an operator stands behind the last step's end", line_));
    if (trace_.steps.empty()) fail("has no step");
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy = kAgain) const {
    throw UserError(archive::printable(trace_.path.string()), problem, remedy);
  }

  void read_header() {
    if (!content_.starts_with(kBeginning.substr(0, std::min(kBeginning.size(), content_.size()))) || content_.empty()) {
      fail("is no trace of isobit", "name a file that isobit trace or isobit.trace wrote");
    }
    if (!lines_.front().ends_with('\n')) fail("is cut off in its first line");
    const std::string_view header = without_newline(lines_.front());
    if (!header.starts_with(fmt::format(R"({{"format":"{}",)", kTraceFormat))) {
      const std::string_view format =
          header.substr(0, header.find("\",")).substr(std::min<std::size_t>(11, header.size()));
      fail(fmt::format("has the format {}, this program reads {}",
                       archive::printable(std::string(format.substr(0, 40))), kTraceFormat),
           "read it with the isobit that wrote it");
    }
    if (!parse_line(header, trace_.header)) fail("line 1: the header was altered");
    const std::string& arithmetic = trace_.header.arithmetic;
    if (!arithmetic.starts_with("isobit-") && !arithmetic.starts_with("stock-")) {
      fail(fmt::format("was made under '{}', which this program does not know", archive::printable(arithmetic)),
           "read it with the program that wrote it");
    }
  }

  // Before the lines: a cut or an altered bit anywhere is told as what it is.
  void read_seal() {
    Seal seal;
    const std::string_view last = lines_.back();
    if (!last.ends_with('\n') || !parse_line(without_newline(last), seal)) {
      fail(fmt::format("is cut off: it has {} lines and its last one is no seal", lines_.size()));
    }
    archive::Sha256 digest;
    digest.update(std::string_view(content_).substr(0, content_.size() - last.size()));
    if (digest.hex() != seal.sha256) fail("was altered: its lines have another digest than its seal says");
    trace_.values_sha256 = seal.values_sha256;
  }

  void read_line(std::string_view text) {
    OperatorLine line;
    StepEnd end;
    if (text.starts_with(R"({"step")") && parse_line(text, line)) return take(std::move(line));
    if (parse_line(text, end)) return take(end);
    fail(fmt::format("line {}: is no line of a trace", line_ + 1));
  }

  void take(OperatorLine&& line) {
    const Window& window = trace_.header.window;
    if (!window.holds(line.key.step) || (!trace_.steps.empty() && line.key.step <= trace_.steps.back().step)) {
      fail(fmt::format("line {}: step {} does not belong here", line_ + 1, line.key.step));
    }
    OperatorKey place = line.key;
    place.occurrence = 0;
    if (line.key.occurrence != ++occurrences_[place]) {
      fail(fmt::format("line {}: {} is out of order", line_ + 1, archive::printable(to_string(line.key))));
    }
    ++operators_;
    trace_.operators.push_back(std::move(line));
  }

  void take(const StepEnd& end) {
    if (!trace_.header.window.holds(end.step) || (!trace_.steps.empty() && end.step <= trace_.steps.back().step) ||
        end.operators != operators_ || (operators_ > 0 && trace_.operators.back().key.step != end.step))
      fail(fmt::format("line {}: the end of step {} does not fit its lines", line_ + 1, end.step));
    operators_ = 0;
    occurrences_.clear();
    trace_.steps.push_back(end);
  }

  std::string content_;
  std::vector<std::string_view> lines_;
  Trace trace_;
  std::size_t line_ = 0;
  std::int64_t operators_ = 0;  // of the step under way
  std::map<OperatorKey, std::int64_t> occurrences_;
};

}  // namespace

std::string values_name(const OperatorKey& key, std::size_t output) {
  return fmt::format("{}/{}", to_string(key), output);
}

TraceWriter::TraceWriter(const std::filesystem::path& path, const TraceHeader& header)
    : path_(path), header_(header), file_(path) {
  if (!header.values.empty()) values_file_ = std::make_unique<archive::OutputFile>(values_path(path));
  append(format_line(header));
}

void TraceWriter::append(const std::string& line) {
  waiting_ += line;
  if (waiting_.size() >= kWriteAt) flush();
}

void TraceWriter::flush() {
  digest_.update(waiting_);
  file_.write(bytes_of(waiting_));
  waiting_.clear();
}

void TraceWriter::add(const OperatorLine& line) {
  ++step_operators_;
  step_ += format_line(line);
}

void TraceWriter::keep(KeptValues values) {
  kept_bytes_ += values.bytes.size();
  if (kept_bytes_ > kMostValues || kept_.size() == kMostTensors) {
    throw UserError(path_.string(), "the values to keep are more than 1 GiB, or of more than 9,000 tensors",
                    "trace fewer steps, or keep the values of one operator");
  }
  kept_.push_back(std::move(values));
}

void TraceWriter::end_step(const StepEnd& line) {
  ++steps_;
  operators_ += std::exchange(step_operators_, 0);
  kept_until_ = kept_.size();
  append(step_ + format_line(line));
  step_.clear();
}

std::string TraceWriter::write_values() {
  if (!values_file_) return "";
  kept_.resize(kept_until_);
  std::vector<archive::TensorView> views;
  for (const KeptValues& kept : kept_) views.push_back({kept.name, kept.dtype, kept.shape, kept.bytes});
  archive::Sha256 digest;
  const auto write = [&](std::span<const std::byte> bytes) {
    digest.update(bytes);
    values_file_->write(bytes);
  };
  write(bytes_of(archive::safetensors_header(views, {{"format", kTraceFormat}})));
  for (const archive::TensorView& view : views) write(view.data);
  values_file_->commit();
  return digest.hex();
}

void TraceWriter::finish() {
  if (steps_ == 0) throw std::logic_error("a trace without a step is not sealed");
  const std::string values = write_values();
  flush();
  file_.write(bytes_of(format_line(Seal{digest_.hex(), values})));
  file_.commit();
}

std::vector<std::int64_t> Trace::missing_steps() const {
  std::set<std::int64_t> there;
  for (const StepEnd& end : steps) there.insert(end.step);
  std::vector<std::int64_t> missing;
  constexpr std::size_t kMost = 1000;  // of a header that claims more than anyone traces
  for (std::int64_t step = header.window.first; step <= header.window.last() && missing.size() < kMost; ++step) {
    if (there.count(step) == 0) missing.push_back(step);
  }
  return missing;
}

bool looks_like_trace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string beginning(kBeginning.size(), '\0');
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  return beginning == kBeginning;
}

Trace read_trace(const std::filesystem::path& path) { return Reader(path).read(); }

archive::Safetensors read_values(const Trace& trace) {
  const std::filesystem::path path = values_path(trace.path);
  if (trace.values_sha256.empty()) throw UserError(trace.path.string(), "keeps no values", "trace with values");
  if (archive::digest_file(path).sha256 != trace.values_sha256) {
    throw UserError(path.string(), "was altered: its digest is not the one in the trace", kAgain);
  }
  return archive::Safetensors::read(path);
}

}  // namespace isobit::trace
