// Training and test parts of one source (contract, section 6).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "samples/samples.h"

namespace isobit::samples {

struct SplitSettings {
  std::string rule = "files";  // files: no split; random, stratified, blocks
  std::int64_t folds = 5, fold = 0;
  bool grouped = false;  // samples of one group stay together
};

struct Split {
  std::vector<std::int64_t> train, test;  // ascending
  // The proof: counted from `train` and `test` again, not by the rule that made them.
  std::int64_t train_groups = 0, test_groups = 0, groups_in_both = 0, samples_in_both = 0;
};

// Fold `fold` (from 0) is the test part. Throws archive::UserError: an empty part, fewer samples or groups than folds,
// stratified without classes, grouped without groups, a group without a name.
[[nodiscard]] Split make_split(const Samples& samples, const SplitSettings& settings, std::uint64_t seed);

// "fold 1 of 5 by group, random: 812 samples of 24 groups train, 210 of 7 test; no group and no sample in both"
[[nodiscard]] std::string split_text(const Split& split, const SplitSettings& settings);

}  // namespace isobit::samples
