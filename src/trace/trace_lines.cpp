#include "trace/trace_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "archive/json_text.h"
#include "archive/log_lines.h"
#include "archive/sha256.h"

namespace isobit::trace {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPhases[] = {"forward", "backward", "optimizer", "evaluate"};

std::string text_of(const Json& object, const char* key) { return object.at(key).get<std::string>(); }

std::string one_line(const Json& object) { return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Reads with `fill` and proves that writing gives the same bytes.
template <class Line, class Fill>
bool parse_exactly(std::string_view text, Line& line, const Fill& fill) {
  try {
    if (text.size() > archive::kLongestLine) return false;
    fill(archive::parse_json(text));
    std::string again = format_line(line);
    again.pop_back();
    return again == text;
  } catch (const std::exception&) {  // of JSON, or of a type other than expected: no such line
    return false;
  }
}

Phase phase_of(const std::string& text) {
  for (int i = 0; i < 4; ++i) {
    if (text == kPhases[i]) return static_cast<Phase>(i);
  }
  throw std::invalid_argument("no phase");
}

Json to_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> finite_of(const Json& value) {
  if (value.is_null()) return {};
  if (!value.is_number_float() || !std::isfinite(value.get<double>())) throw std::invalid_argument("no number");
  return value.get<double>();
}

std::int64_t count_of(const Json& object, const char* key) {
  const auto count = archive::integer<std::int64_t>(object.at(key));
  if (count < 0) throw std::invalid_argument("no count");
  return count;
}

Json to_json(const Statistics& statistics) {
  return {{"min", to_json(statistics.min)},
          {"max", to_json(statistics.max)},
          {"mean", to_json(statistics.mean)},
          {"nan", statistics.nan},
          {"infinite", statistics.infinite}};
}

Statistics statistics_of(const Json& object) {
  return {finite_of(object.at("min")), finite_of(object.at("max")), finite_of(object.at("mean")),
          count_of(object, "nan"), count_of(object, "infinite")};
}

Json to_json(const TensorTrace& tensor) {
  Json object{{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"fingerprint", tensor.fingerprint}};
  if (!tensor.without.empty()) object["without"] = tensor.without;
  if (!tensor.samples.empty()) {
    Json& list = object["samples"] = Json::array();
    for (const Sample& sample : tensor.samples) list.push_back(Json::array({sample.index, sample.bits}));
  }
  if (tensor.statistics) object["statistics"] = to_json(*tensor.statistics);
  return object;
}

TensorTrace tensor_of(const Json& object) {
  TensorTrace tensor;
  tensor.dtype = text_of(object, "dtype");
  for (const Json& size : object.at("shape")) {
    tensor.shape.push_back(archive::integer<std::int64_t>(size));
    if (tensor.shape.back() < 0) throw std::invalid_argument("no size");
  }
  tensor.fingerprint = text_of(object, "fingerprint");
  if (object.contains("without")) tensor.without = text_of(object, "without");
  // A fingerprint, or why there is none: one of the two.
  if (tensor.without.empty() ? !archive::is_hex(tensor.fingerprint, 32) : !tensor.fingerprint.empty()) {
    throw std::invalid_argument("no fingerprint");
  }
  if (object.contains("samples")) {
    for (const Json& sample : object.at("samples")) {
      const auto& bits = sample.at(1).get_ref<const std::string&>();
      if (sample.size() != 2 || !archive::is_hex(bits, bits.size())) throw std::invalid_argument("no sample");
      tensor.samples.push_back({archive::integer<std::int64_t>(sample.at(0)), bits});
    }
  }
  if (object.contains("statistics")) tensor.statistics = statistics_of(object.at("statistics"));
  return tensor;
}

Json to_json(const std::vector<TensorTrace>& tensors) {
  Json list = Json::array();
  for (const TensorTrace& tensor : tensors) list.push_back(to_json(tensor));
  return list;
}

std::vector<TensorTrace> tensors_of(const Json& list) {
  std::vector<TensorTrace> tensors;
  for (const Json& object : list) tensors.push_back(tensor_of(object));
  return tensors;
}

}  // namespace

std::optional<Window> parse_window(std::string_view text) {
  const auto number = [](std::string_view digits) -> std::int64_t {
    std::int64_t value = 0;
    const auto end = digits.data() + digits.size();
    const auto [stop, problem] = std::from_chars(digits.data(), end, value);
    return problem == std::errc() && stop == end && value <= 1'000'000'000'000 ? value : 0;
  };
  const std::size_t colon = text.find(':');
  const Window window{number(text.substr(0, colon)),
                      colon == std::string_view::npos ? 1 : number(text.substr(colon + 1))};
  if (window.first < 1 || window.count < 1) return {};
  return window;
}

const char* to_string(Phase phase) { return kPhases[static_cast<int>(phase)]; }

std::string to_string(const OperatorKey& key) {
  return fmt::format("{}/{}/{}/{}/{}", key.step, to_string(key.phase), key.module, key.name, key.occurrence);
}

std::string format_line(const TraceHeader& line) {
  return one_line({{"format", kTraceFormat},
                   {"arithmetic", line.arithmetic},
                   {"torch", line.torch},
                   {"run", line.run},
                   {"first", line.window.first},
                   {"count", line.window.count},
                   {"samples", line.samples},
                   {"statistics", line.statistics},
                   {"values", line.values},
                   {"environment", Json::parse(line.environment)}});
}

std::string format_line(const OperatorLine& line) {
  return one_line({{"step", line.key.step},
                   {"phase", to_string(line.key.phase)},
                   {"module", line.key.module},
                   {"name", line.key.name},
                   {"occurrence", line.key.occurrence},
                   {"arguments", line.arguments},
                   {"inputs", to_json(line.inputs)},
                   {"outputs", to_json(line.outputs)}});
}

std::string format_line(const StepEnd& line) {
  Json object{{"end", line.step}, {"operators", line.operators}};
  if (!line.record.empty()) object["record"] = line.record;
  return one_line(object);
}

std::string format_line(const Seal& line) {
  return one_line({{"sealed", line.sha256}, {"values", line.values_sha256}});
}

bool parse_line(std::string_view text, TraceHeader& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line = {text_of(object, "arithmetic"), text_of(object, "torch"),
            text_of(object, "run"),        {count_of(object, "first"), count_of(object, "count")},
            count_of(object, "samples"),   object.at("statistics").get<bool>(),
            text_of(object, "values"),     object.at("environment").dump()};
    if (line.window.first < 1 || line.window.count < 1) throw std::invalid_argument("no window");
  });
}

bool parse_line(std::string_view text, OperatorLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.key = {archive::integer<std::int64_t>(object.at("step")), phase_of(text_of(object, "phase")),
                text_of(object, "module"), text_of(object, "name"), count_of(object, "occurrence")};
    line.arguments = text_of(object, "arguments");
    line.inputs = tensors_of(object.at("inputs"));
    line.outputs = tensors_of(object.at("outputs"));
  });
}

bool parse_line(std::string_view text, StepEnd& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line = {count_of(object, "end"), count_of(object, "operators"),
            object.contains("record") ? text_of(object, "record") : ""};
    if (!line.record.empty() && line.record != "agrees" && line.record != "differs") {
      throw std::invalid_argument("no comparison");
    }
  });
}

bool parse_line(std::string_view text, Seal& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line = {text_of(object, "sealed"), text_of(object, "values")};
    if (!archive::is_hex(line.sha256, 64) ||
        (!line.values_sha256.empty() && !archive::is_hex(line.values_sha256, 64))) {
      throw std::invalid_argument("no digest");
    }
  });
}

}  // namespace isobit::trace
