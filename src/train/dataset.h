// The training and test samples of an experiment, from its section [data] and [split].
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "samples/samples.h"
#include "samples/source.h"
#include "train/experiment.h"

namespace isobit::train {

struct DataSets {
  std::shared_ptr<const samples::Samples> train, test;
  std::string split;  // how many samples and groups are in each part, in words; empty without a split
};

// Where the parts come from; with a split the first is all data, and there is no second.
[[nodiscard]] std::vector<samples::Source> data_sources(const Experiment& experiment);

// Files and folders that they read; for sandboxes.
[[nodiscard]] std::vector<std::filesystem::path> data_paths(const Experiment& experiment);

// Where a recorded experiment's data lies here: `given` where somebody gave it. An export writes ~ for the home of who
// recorded: that is this user's home where the data lies there, too, else archive::UserError that asks for --data.
[[nodiscard]] std::string recorded_data_path(const std::string& recorded, const std::string& given);

// Throws archive::UserError naming file and sample: not readable, parts that differ in shape, targets that do not fit.
[[nodiscard]] DataSets load_data(const Experiment& experiment);

}  // namespace isobit::train
