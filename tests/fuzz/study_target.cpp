// What studies read: their TOML, the list of their cells, predictions, baselines and the history of calibrations.
#include "archive/files.h"
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "study/baselines.h"
#include "study/cells.h"
#include "study/predictions.h"
#include "study/study_file.h"

namespace isobit::fuzz {
namespace {

using namespace study;

const std::string kHead = "[study]\nname = 'a'\nexperiment = 'e.toml'\nmetric = 'test.accuracy'\n";

}  // namespace

// What is read is written in one spelling, which is read as the same.
void run_study(std::string_view input) {
  accepts([&] {
    const Study study = parse_study(std::string(input), "study.toml");
    const std::string text = to_toml(study, "e.toml");
    require(to_toml(parse_study(text, "study.toml"), "e.toml") == text, "a study reads what it writes");
  });
}

std::vector<std::string> study_seeds() {
  return {kHead + "[factors]\nseed = '1..3'\nthreads = [1, 2]\n",
          kHead +
              "design = 'sampled'\nsamples = 3\ncompare = 'a.b'\n[factors]\na.b = [0.5, 1e-3, true, 'x']\nc = [[1, 2], "
              "[3]]\n",
          kHead +
              "[settings]\nepochs = 1\n[algorithms.sgd]\noptimizer.lr = 0.1\n[algorithms.adam]\n[folds]\nkind = "
              "'repeated'\n"
              "folds = 4\nrepeats = 2\ngroup = 'g'\n"};
}

// The input as each of the files in turn.
void run_study_files(std::string_view input) {
  const auto folder = scratch() / "study";
  archive::make_folders(folder);
  const auto write = [&](const char* name) { archive::write_file(folder / name, input); };
  static const std::vector<Cell> cells = make_cells(parse_study(study_seeds()[0], "study.toml"), "");
  write("cells.json");
  accepts([&] {
    std::vector<Cell> own = cells;
    take_states(own, folder / "cells.json");
  });
  write(kPredictionsFile);
  accepts([&] { static_cast<void>(read_predictions(folder)); });
  write(kBaselinesFile);
  accepts([&] {
    const auto baselines = read_baselines(folder);
    write_baselines(folder, baselines);
    require(read_baselines(folder).size() == baselines.size(), "baselines are read as they are written");
  });
  CalibrationLine line;
  if (parse_line(input, line)) require(format_line(line) == std::string(input) + "\n", "a line has one spelling");
}

std::vector<std::string> study_files_seeds() {
  const Study study = parse_study(study_seeds()[0], "study.toml");
  std::vector<Cell> cells = make_cells(study, "");
  cells[0].state = CellState::finished, cells[0].value = 0.5;
  std::string line =
      format_line(CalibrationLine{"t", "a", "r", Verdict::moved, "w", {{"test.loss", 0.5}}, {{"run.isa", "avx2"}}, ""});
  line.pop_back();
  return {
      format_cells(study, cells), line, "[a]\nruns = [\"20260101-000000-a-00000000\"]\nadded = \"t\"\n",
      "{\"step\":1,\"epoch\":1,\"set\":\"test\",\"predictions\":[1,2],\"targets\":\"" + std::string(64, 'a') + "\"}\n"};
}

}  // namespace isobit::fuzz
