#include "archive/experiment_text.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace isobit::archive {
namespace {

constexpr std::string_view kStock = "stock-";
constexpr std::int64_t kMostSegments = 4096;  // train/experiment_schema.cpp

// The value of a section's key, as it is spelt; "" where there is none.
std::string_view value_of(std::string_view text, std::string_view section, std::string_view key) {
  bool inside = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('[')) {
      inside = line.size() == section.size() + 2 && line.substr(1, section.size()) == section && line.back() == ']';
    } else if (inside && line.starts_with(key) && line.substr(key.size()).starts_with(" = ")) {
      return line.substr(key.size() + 3);
    }
  }
  return {};
}

}  // namespace

std::string stock_name(std::string_view torch_version) { return std::string(kStock) + std::string(torch_version); }

bool is_stock(std::string_view contract) { return contract.starts_with(kStock); }

bool is_script(const std::string& experiment) { return ("\n" + experiment).find("\n[script]\n") != std::string::npos; }

bool asks_for_stock(std::string_view experiment) {
  return value_of(experiment, "arithmetic", "kind") == "\"stock\"" ||
         value_of(experiment, "script", "arithmetic") == "\"stock\"";
}

std::string asked_products(std::string_view experiment) {
  for (const std::string_view section : {"arithmetic", "script"}) {
    const std::string_view value = value_of(experiment, section, "products");
    if (value.size() >= 2) return std::string(value.substr(1, value.size() - 2));
  }
  return "ordered";
}

bool keeps_predictions(std::string_view experiment) {
  return value_of(experiment, "evaluate", "predictions") == "true" ||
         value_of(experiment, "script", "predictions") == "true";
}

std::optional<CheckpointsDue> checkpoints_due(std::string_view experiment) {
  CheckpointsDue due;
  for (const auto& [key, number, least] :
       {std::tuple("every", &due.every, 0), std::tuple("segments", &due.segments, 1)}) {
    const std::string_view text = value_of(experiment, "checkpoint", key);
    if (text.empty() && number == &due.segments) continue;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    if (error != std::errc() || end != text.data() + text.size() || *number < least || due.segments > kMostSegments)
      return std::nullopt;
  }
  return due;
}

}  // namespace isobit::archive
