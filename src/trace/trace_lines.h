// What a trace says, as plain values, and its lines: one JSON object each, in one spelling only
// (docs/formats/trace.md).
//
// format_line gives the line with its newline. parse_line takes a line without it and accepts exactly what format_line
// writes: false for anything else, and for a line of more than archive::kLongestLine bytes. No torch. Thread-safe; no
// state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::trace {

inline constexpr const char* kTraceFormat = "isobit-trace-1";
inline constexpr const char* kValuesEnding = ".values.safetensors";  // of the file beside a trace that keeps values

enum class Phase { forward, backward, optimizer, evaluate };
[[nodiscard]] const char* to_string(Phase phase);

// Steps first .. first + count - 1.
struct Window {
  std::int64_t first = 1, count = 0;
  [[nodiscard]] std::int64_t last() const { return first + count - 1; }
  [[nodiscard]] bool holds(std::int64_t step) const { return step >= first && step <= last(); }
  friend bool operator==(const Window&, const Window&) = default;
};
// "100:3" (steps 100 to 102), "100" (one step); nothing for other words.
[[nodiscard]] std::optional<Window> parse_window(std::string_view text);

struct TraceHeader {
  std::string arithmetic;  // "isobit-0.1", "stock-2.13.0"
  std::string torch;       // "2.13.0"
  std::string run;         // id of the record that was executed again; "" for a program that was traced as it ran
  Window window;
  std::int64_t samples = 0;  // of each tensor at most
  bool statistics = false;
  std::string values;       // key of the operator whose outputs are kept, "all", or ""
  std::string environment;  // archive::environment_json, on one line
  friend bool operator==(const TraceHeader&, const TraceHeader&) = default;
};

// Where in its step an operator stands: the same on every machine that executes the same program.
struct OperatorKey {
  std::int64_t step = 0;
  Phase phase = Phase::forward;
  std::string module;           // path of the module, "LeNet5.fc1"; "" outside of any
  std::string name;             // operator and overload, "aten::add.Tensor"
  std::int64_t occurrence = 1;  // among those with the same step, phase, module and name
  friend auto operator<=>(const OperatorKey&, const OperatorKey&) = default;
};
// "3/forward/LeNet5.fc1/aten::linear/1"
[[nodiscard]] std::string to_string(const OperatorKey& key);

// One value: its index in the tensor's logical order, and its bits as the fingerprint counts them.
struct Sample {
  std::int64_t index = 0;
  std::string bits;  // lower-case hexadecimal
  friend bool operator==(const Sample&, const Sample&) = default;
};

// Minimum, maximum and mean are over the finite values; nothing where there is none.
struct Statistics {
  std::optional<double> min, max, mean;
  std::int64_t nan = 0, infinite = 0;
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

struct TensorTrace {
  std::string dtype;  // "float32"
  std::vector<std::int64_t> shape;
  std::string fingerprint;  // 32 hexadecimal digits; "" where there is none
  std::string without;      // why there is none: "sparse", "never written", "overwritten"
  std::vector<Sample> samples;
  std::optional<Statistics> statistics;
  friend bool operator==(const TensorTrace&, const TensorTrace&) = default;
};

// Inputs as they were when the operator was called, outputs when it was done.
struct OperatorLine {
  OperatorKey key;
  std::string arguments;  // all arguments in order: "t" for a tensor, numbers as they are
  std::vector<TensorTrace> inputs, outputs;
  friend bool operator==(const OperatorLine&, const OperatorLine&) = default;
};

// The end of a traced step.
struct StepEnd {
  std::int64_t step = 0, operators = 0;
  std::string record;  // of a record executed again: "agrees" or "differs" (the step's line there); else ""
  friend bool operator==(const StepEnd&, const StepEnd&) = default;
};

// The last line: the digest of all bytes before it.
struct Seal {
  std::string sha256;
  std::string values_sha256;  // of the file of values; "" where there is none
  friend bool operator==(const Seal&, const Seal&) = default;
};

[[nodiscard]] std::string format_line(const TraceHeader& line);
[[nodiscard]] std::string format_line(const OperatorLine& line);
[[nodiscard]] std::string format_line(const StepEnd& line);
[[nodiscard]] std::string format_line(const Seal& line);

[[nodiscard]] bool parse_line(std::string_view text, TraceHeader& line);
[[nodiscard]] bool parse_line(std::string_view text, OperatorLine& line);
[[nodiscard]] bool parse_line(std::string_view text, StepEnd& line);
[[nodiscard]] bool parse_line(std::string_view text, Seal& line);

}  // namespace isobit::trace
