// The levels of a study's factors as its file gives them. Not a public header: it names toml++. Errors are UserError
// with the place in the file. No state; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "study/study_file.h"
#include "study/toml_text.h"

namespace isobit::study {

inline constexpr std::int64_t kMostLevels = 10'000;

// A text as TOML spells it.
[[nodiscard]] std::string toml_text(const std::string& text);
// A number as TOML spells it: one with a point keeps it.
[[nodiscard]] std::string toml_number(double value);

// A text, a finite number, true, false, or a list of these.
[[nodiscard]] Level level_of(const toml::node& node, const std::string& place);
// A list of levels, each once, or "FIRST..LAST".
[[nodiscard]] std::vector<Level> levels_of(const toml::node& node, const std::string& key, const std::string& place);
// Of a factor that is an option of isobit run: whether its levels can be.
void check_option(const StudyFactor& factor, const std::string& place);

}  // namespace isobit::study
