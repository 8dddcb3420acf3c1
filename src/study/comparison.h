// Algorithms compared in pairs: the part of a study's analysis (analysis.h) that gives verdicts. No state; thread-safe.
#pragma once

#include <vector>

#include "study/analysis.h"

namespace isobit::study {

// Each pair of levels of the compared factor; appends to `warnings`.
[[nodiscard]] std::vector<Comparison> compare_levels(const Study& study, const std::vector<Cell>& cells,
                                                     const HitsOf& hits, std::vector<std::string>& warnings);

}  // namespace isobit::study
