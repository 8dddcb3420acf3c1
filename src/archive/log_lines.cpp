#include "archive/log_lines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/sha256.h"

namespace isobit::archive {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN: these are texts.
Json to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double to_double(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("no number");
}

std::uint32_t to_bits(const std::string& hex) {
  std::uint32_t bits = 0;
  const auto result = std::from_chars(hex.data(), hex.data() + hex.size(), bits, 16);
  if (result.ec != std::errc() || result.ptr != hex.data() + hex.size()) throw std::invalid_argument("no bits");
  return bits;
}

// A fingerprint's 32 digits; whoever shows one later need not look again.
std::string fingerprint_of(const Json& object, const char* key) {
  const auto& text = object.at(key).get_ref<const std::string&>();
  if (!is_hex(text, 32)) throw std::invalid_argument("no fingerprint");
  return text;
}

std::string one_line(const Json& object) { return object.dump() + "\n"; }

// Reads with `fill` and proves that writing gives the same bytes.
template <class Line, class Fill>
bool parse_exactly(std::string_view text, Line& line, const Fill& fill) {
  try {
    if (text.size() > kLongestLine) return false;
    const Json object = parse_json(text);
    fill(object);
    std::string again = format_line(line);
    again.pop_back();
    return again == text;
  } catch (const std::exception&) {  // of JSON, or of a type other than expected: no such line
    return false;
  }
}

// A step's line as format_line writes it, without JSON: records have millions of them. false: look at it as JSON.
struct PlainStep {
  std::string_view rest;

  bool skip(std::string_view expected) {
    if (!rest.starts_with(expected)) return false;
    rest.remove_prefix(expected.size());
    return true;
  }
  bool number(std::int64_t& value) {
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const auto digits = static_cast<std::size_t>(read.ptr - rest.data());
    if (read.ec != std::errc() || digits > 18 || rest[0] == '-' || (rest[0] == '0' && digits > 1)) return false;
    rest.remove_prefix(digits);
    return true;
  }
  bool hex(std::string& value, std::size_t digits) {
    if (!is_hex(rest.substr(0, digits), digits)) return false;
    value = rest.substr(0, digits);
    rest.remove_prefix(digits);
    return true;
  }
  bool read(StepLine& line) {
    StepLine found;
    std::string bits;
    if (!skip(R"({"step":)") || !number(found.step) || !skip(R"(,"epoch":)") || !number(found.epoch)) return false;
    if (!skip(R"(,"loss":")") || !hex(bits, 8) || !skip(R"(","batch":")") || !hex(found.batch, 32)) return false;
    if (skip(R"(","gradients":")") && !hex(found.gradients, 32)) return false;
    if (skip(R"(","weights":")") && !hex(found.weights, 32)) return false;
    if (skip(R"(","optimizer":")") && !hex(found.optimizer, 32)) return false;
    if (rest != R"("})") return false;
    found.loss_bits = to_bits(bits);
    line = std::move(found);
    return true;
  }
};

std::string quoted(const std::string& text) { return Json(text).dump(); }

}  // namespace

// Written at every step, so put together without an object; the same bytes.
std::string format_line(const StepLine& line) {
  std::string text = fmt::format(R"({{"step":{},"epoch":{},"loss":"{:08x}","batch":{})", line.step, line.epoch,
                                 line.loss_bits, quoted(line.batch));
  if (!line.gradients.empty()) text += R"(,"gradients":)" + quoted(line.gradients);
  if (!line.weights.empty()) text += R"(,"weights":)" + quoted(line.weights);
  if (!line.optimizer.empty()) text += R"(,"optimizer":)" + quoted(line.optimizer);
  return text + "}\n";
}

std::string format_line(const MetricsLine& line) {
  Json values = Json::object();
  for (const auto& [name, value] : line.values) values[name] = to_json(value);
  return one_line({{"step", line.step}, {"epoch", line.epoch}, {"set", line.set}, {"values", values}});
}

std::string format_line(const EvaluationLine& line) {
  return one_line({{"step", line.step}, {"epoch", line.epoch}, {"tensors", line.tensors}, {"batches", line.batches}});
}

std::string format_line(const PredictionsLine& line) {
  return one_line({{"step", line.step},
                   {"epoch", line.epoch},
                   {"set", line.set},
                   {"predictions", line.predictions},
                   {"targets", line.targets}});
}

std::string format_line(const OutsideLine& line) {
  return one_line({{"after", line.after}, {"until", line.until}, {"place", line.place}, {"call", line.call}});
}

std::string format_line(const TimingLine& line) {
  return one_line(
      {{"step", line.step}, {"phase", line.phase}, {"seconds", to_json(line.seconds)}, {"samples", line.samples}});
}

std::string format_line(const CheckpointLine& line) {
  Json logs = Json::object();
  for (const auto& [name, digest] : line.logs) logs[name] = {{"size", digest.size}, {"sha256", digest.sha256}};
  Json object = {
      {"step", line.entry.step}, {"file", line.entry.file}, {"size", line.entry.size}, {"sha256", line.entry.sha256}};
  if (!line.entry.weights_sha256.empty()) object["weights_sha256"] = line.entry.weights_sha256;
  object["logs"] = logs;
  return one_line(object);
}

bool parse_line(std::string_view text, StepLine& line) {
  if (PlainStep{text}.read(line)) return true;
  return parse_exactly(text, line, [&](const Json& object) {
    line.step = integer<std::int64_t>(object.at("step"));
    line.epoch = integer<std::int64_t>(object.at("epoch"));
    line.loss_bits = to_bits(object.at("loss").get<std::string>());
    line.batch = fingerprint_of(object, "batch");
    if (object.contains("gradients")) line.gradients = fingerprint_of(object, "gradients");
    if (object.contains("weights")) line.weights = fingerprint_of(object, "weights");
    if (object.contains("optimizer")) line.optimizer = fingerprint_of(object, "optimizer");
  });
}

bool parse_line(std::string_view text, MetricsLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.step = integer<std::int64_t>(object.at("step"));
    line.epoch = integer<std::int64_t>(object.at("epoch"));
    line.set = object.at("set").get<std::string>();
    for (const auto& [name, value] : object.at("values").items()) line.values[name] = to_double(value);
  });
}

bool parse_line(std::string_view text, EvaluationLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.step = integer<std::int64_t>(object.at("step"));
    line.epoch = integer<std::int64_t>(object.at("epoch"));
    line.tensors = integer<std::int64_t>(object.at("tensors"));
    line.batches = fingerprint_of(object, "batches");
  });
}

bool parse_line(std::string_view text, PredictionsLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.step = integer<std::int64_t>(object.at("step"));
    line.epoch = integer<std::int64_t>(object.at("epoch"));
    line.set = object.at("set").get<std::string>();
    for (const Json& prediction : object.at("predictions")) {
      line.predictions.push_back(integer<std::int64_t>(prediction));
      if (line.predictions.back() < 0) throw std::invalid_argument("no class");
    }
    line.targets = object.at("targets").get<std::string>();
    if (!is_hex(line.targets, 64) || line.step < 0) throw std::invalid_argument("no digest, or no step");
  });
}

bool parse_line(std::string_view text, OutsideLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.after = integer<std::int64_t>(object.at("after"));
    line.until = integer<std::int64_t>(object.at("until"));
    line.place = object.at("place").get<std::string>();
    line.call = object.at("call").get<std::string>();
    if (line.call != "disabled" && line.call != "disable" && line.call != "enable") throw std::invalid_argument("call");
  });
}

bool parse_line(std::string_view text, TimingLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.step = integer<std::int64_t>(object.at("step"));
    line.phase = object.at("phase").get<std::string>();
    line.seconds = to_double(object.at("seconds"));
    line.samples = integer<std::int64_t>(object.at("samples"));
  });
}

bool parse_line(std::string_view text, CheckpointLine& line) {
  return parse_exactly(text, line, [&](const Json& object) {
    line.entry = {integer<std::int64_t>(object.at("step")), object.at("file").get<std::string>(),
                  integer<std::uint64_t>(object.at("size")), object.at("sha256").get<std::string>(), ""};
    if (object.contains("weights_sha256")) {
      line.entry.weights_sha256 = object.at("weights_sha256").get<std::string>();
      if (!is_hex(line.entry.weights_sha256, 64)) throw std::invalid_argument("no digest");
    }
    for (const auto& [name, digest] : object.at("logs").items()) {
      line.logs[name] = {integer<std::uint64_t>(digest.at("size")), digest.at("sha256").get<std::string>()};
    }
  });
}

}  // namespace isobit::archive
