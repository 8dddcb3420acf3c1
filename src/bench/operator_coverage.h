// isobit ops --coverage: how many of PyTorch's operators are of each class, by family.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "aten/classification.h"

namespace isobit::bench {

struct FamilyCoverage {
  std::string_view family;
  std::array<std::size_t, 4> counts{};  // by aten::OperatorClass
};

// Every family in a fixed order, those without an operator too. Each operator counts in exactly one.
[[nodiscard]] std::vector<FamilyCoverage> coverage_by_family(const std::vector<aten::OperatorInfo>& operators);

// samples: the file that `scripts/op-samples --out` writes, or empty. UserError where it cannot be read.
[[nodiscard]] nlohmann::ordered_json coverage_json(const std::vector<aten::OperatorInfo>& operators,
                                                   const std::string& samples);
[[nodiscard]] std::string coverage_text(const nlohmann::ordered_json& coverage);

}  // namespace isobit::bench
