// The test set of a run, opened from its data files without torch: true classes, and the groups that a fold holds out.
//
// `experiment` is a resolved one, as a record has it: anybody's text. What is opened are the files that it names. No
// state; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "samples/samples.h"

namespace isobit::study {

// As train/dataset.cpp opens it. UserError where the text is no experiment, and where the files are gone or others.
[[nodiscard]] std::shared_ptr<const samples::Samples> open_test_set(const std::string& experiment);

// The targets whose digest a line of predictions.jsonl names. Nothing where the files are gone or others, or the target
// is no class per sample.
[[nodiscard]] std::optional<std::vector<std::int64_t>> targets_of(const std::string& experiment,
                                                                  const std::string& digest);

// The groups (split.group) of the test set's samples, ascending, each once. Nothing where there are none, or no files.
[[nodiscard]] std::vector<std::string> groups_of_test_set(const std::string& experiment);

}  // namespace isobit::study
