// Traces of operators. An input that begins with "sealed\n" gets a seal of its own over the lines that follow.
#include "archive/sha256.h"
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "trace/trace_file.h"

namespace isobit::fuzz {
namespace {

using namespace trace;

constexpr std::string_view kSealed = "sealed\n";

std::string lines_of(const Trace& trace) {
  std::string lines = format_line(trace.header);
  std::size_t next = 0;
  for (const StepEnd& end : trace.steps) {
    for (std::int64_t i = 0; i < end.operators; ++i) lines += format_line(trace.operators.at(next++));
    lines += format_line(end);
  }
  return lines;
}

TensorTrace tensor(bool full) {
  TensorTrace tensor;
  tensor.dtype = "float32";
  tensor.shape = {2, 3};
  tensor.fingerprint = std::string(32, 'c');
  if (full) tensor.samples = {{0, "3f800000"}, {5, "7fc00000"}};
  if (full) tensor.statistics = Statistics{-1.5, 0.1, {}, 1, 2};
  return tensor;
}

std::string small_trace() {
  TraceHeader header;
  header.arithmetic = "isobit-0.1";
  header.torch = "2.13.0";
  header.window = {3, 2};
  header.environment = R"({"run":{"threads":"1"}})";
  OperatorLine line;
  line.key = {3, Phase::backward, "model.fc", "aten::mm", 1};
  line.arguments = "t,[t,2],0.5";
  line.inputs = {tensor(false), {"float32", {4}, "", "sparse", {}, {}}};
  line.outputs = {tensor(true)};
  return format_line(header) + format_line(line) + format_line(StepEnd{3, 1, "agrees"}) +
         format_line(StepEnd{4, 0, ""});
}

}  // namespace

void run_trace(std::string_view input) {
  const auto file = scratch() / "trace";
  std::string content(input);
  if (input.starts_with(kSealed)) {
    content = content.substr(kSealed.size());
    content += format_line(Seal{archive::sha256(content), ""});
  }
  put(file, content);
  (void)looks_like_trace(file);
  accepts([&] {
    const Trace read = read_trace(file);
    const std::string lines = lines_of(read);
    require(lines + format_line(Seal{archive::sha256(lines), read.values_sha256}) == content,
            "a trace has one spelling");
    (void)read.missing_steps();
  });
}

std::vector<std::string> trace_seeds() {
  const std::string lines = small_trace();
  return {std::string(kSealed) + lines, lines + format_line(Seal{archive::sha256(lines), ""}), lines};
}

}  // namespace isobit::fuzz
