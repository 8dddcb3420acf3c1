// Whether a record is the run that a cell of a study asks for. Its id says so by eight digits that anybody can give a
// run; here its experiment, or its program and arguments, is held against the cell's.
//
// Of an experiment every key that the study's file or the cell names must have this value in the record; a key that the
// record leaves out has its default (experiment_defaults.h). A key that neither names has one value in all runs of the
// study. Of a script the text and the arguments must be the recorded ones; words that the record left out (secrets,
// home folders) are not compared. What it imports has one text in all runs of the study. How it was executed (threads,
// instruction set, capability) is claimed by the record and not looked at. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "study/cells.h"

namespace isobit::study {

class RecordedCells {
 public:
  // `given`: the text of the study's experiment file, or of its script.
  RecordedCells(const Study& study, const std::string& given);

  // Why the record in `run` is not the cell's run, in words for people: "optimizer.lr is 0.1 in it, 0.05 here"; ""
  // where it is. UserError where the record's experiment cannot be read.
  [[nodiscard]] std::string contradiction(const Cell& cell, const std::filesystem::path& run);

 private:
  using Settings = std::map<std::string, std::string>;  // "optimizer.lr" -> one spelling of its value
  [[nodiscard]] static Settings settings_in(const std::string& toml, const std::string& origin);
  [[nodiscard]] std::string of_experiment(const Cell& cell, const std::filesystem::path& run);
  [[nodiscard]] std::string of_script(const Cell& cell, const std::filesystem::path& run);
  // The first value of what no file names, and the run that has it; nothing where it is this value.
  using Origin = std::pair<std::string, std::string>;
  [[nodiscard]] std::optional<Origin> other_than(const std::string& key, const std::string& value,
                                                 const std::string& run);

  const Study& study_;
  std::string given_;
  Settings named_;                          // by the study's experiment file
  Settings unsaid_;                         // what a key is where the record leaves it out
  std::mutex mutex_;                        // of what follows
  std::map<std::string, Origin> defaults_;  // key, or name of a source -> (value, the first run that has it)
};

}  // namespace isobit::study
