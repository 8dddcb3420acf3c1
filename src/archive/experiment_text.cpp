#include "archive/experiment_text.h"

#include <algorithm>

namespace isobit::archive {
namespace {

constexpr std::string_view kStock = "stock-";

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

bool keeps_predictions(std::string_view experiment) {
  return value_of(experiment, "evaluate", "predictions") == "true" ||
         value_of(experiment, "script", "predictions") == "true";
}

}  // namespace isobit::archive
