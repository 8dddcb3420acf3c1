// An experiment as a flat list: "optimizer.lr" and its value as the record spells it.
//
// Reads the one spelling in which isobit writes an experiment (a [table] or a key with its value per line; records of
// Python programs, too). Lines of another form are passed over: a report shows settings, it does not execute them.
// Thread-safe; no state.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isobit::report {

using Settings = std::vector<std::pair<std::string, std::string>>;  // in the order of the file

[[nodiscard]] Settings parse_settings(std::string_view experiment);

// The keys whose values are the same in all; the others, in the order of their first appearance. Of nothing: nothing.
struct SharedSettings {
  Settings common;
  std::vector<std::string> differing;
};
[[nodiscard]] SharedSettings compare_settings(const std::vector<const Settings*>& all);

// The value of a key; "" where there is none.
[[nodiscard]] std::string setting(const Settings& settings, std::string_view key);

}  // namespace isobit::report
