// A study's results as JSON (docs/formats/study.md, results.json) and as tables that people read. No state;
// thread-safe.
#pragma once

#include <string>

#include "study/analysis.h"

namespace isobit::study {

[[nodiscard]] std::string results_json(const Study& study, const Results& results);
[[nodiscard]] std::string results_text(const Study& study, const Results& results);

}  // namespace isobit::study
