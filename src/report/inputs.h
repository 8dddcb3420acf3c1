// Results of other commands that a report shows: `isobit diff --json`, `isobit drift --json`, a study's folder.
//
// Each reader checks format and types and takes only the keys it knows: the page's scripts can rely on them. What is
// missing or of another type is a UserError naming file and key. Texts come back printable (archive/printable.h). Large
// tables are thinned, and say so. Thread-safe; no state.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobit::report {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMostDriftSteps = 240, kMostDriftLayers = 160;

[[nodiscard]] Json read_diff(const std::filesystem::path& file);   // isobit-diff-1
[[nodiscard]] Json read_drift(const std::filesystem::path& file);  // isobit-drift-1
// The same of text; `origin` stands in messages for the file's name.
[[nodiscard]] Json parse_diff(const std::string& text, const std::filesystem::path& origin);
[[nodiscard]] Json parse_drift(const std::string& text, const std::filesystem::path& origin);

// Whether the folder is a study's: it holds cells.json or results.json.
[[nodiscard]] bool is_study(const std::filesystem::path& folder);

struct Study {                              // NOLINT(bugprone-exception-escape): of Json, which moves without throwing
  Json cells;                               // isobit-study-cells-1, checked
  Json results;                             // isobit-study-1, checked; null while there are none
  std::vector<std::filesystem::path> runs;  // folders of the cells that have a run, in the order of the cells
};
[[nodiscard]] Study read_study(const std::filesystem::path& folder);

// The value with every text in it printable.
[[nodiscard]] Json printable_json(const Json& value);

}  // namespace isobit::report
