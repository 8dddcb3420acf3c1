// The test set of a record, opened from what its experiment names.
#include "study/test_set.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "archive/files.h"
#include "archive/small_run.h"
#include "study/analysis.h"
#include "study/cells.h"
#include "study/study_file.h"

namespace isobit::study {
namespace {

using Groups = std::vector<std::string>;

// Eight samples of four persons.
std::string experiment_with(const std::filesystem::path& folder, int folds, int fold) {
  std::string table = "x,y,person\n";
  for (int i = 0; i < 8; ++i) table += "1,0," + std::string(1, static_cast<char>('a' + i / 2)) + "\n";
  archive::write_file(folder / "all.csv", table);
  return "seed = 3\n[data]\nformat = \"csv\"\npath = \"" + folder.string() +
         "\"\ntrain = \"all.csv\"\ntest_limit = 0\n[split]\nrule = \"random\"\ngroup = \"person\"\nfolds = " +
         std::to_string(folds) + "\nfold = " + std::to_string(fold) + "\n";
}

TEST(TestSet, FoldsHoldGroupsOut) {
  const archive::Scratch scratch;
  Groups all;
  for (int fold = 0; fold < 4; ++fold) {
    const Groups groups = groups_of_test_set(experiment_with(scratch.path(), 4, fold));
    ASSERT_EQ(groups.size(), 1U);
    all.push_back(groups[0]);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Groups{"a", "b", "c", "d"}));
  EXPECT_EQ(groups_of_test_set(experiment_with(scratch.path(), 2, 0)).size(), 2U);
}

TEST(TestSet, WithoutFilesOrGroupsThereAreNone) {
  const archive::Scratch scratch;
  std::string text = experiment_with(scratch.path(), 4, 0);
  std::filesystem::remove(scratch.path() / "all.csv");
  EXPECT_TRUE(groups_of_test_set(text).empty());
  text.replace(text.find("group = \"person\""), 16, "group = \"\"      ");
  EXPECT_TRUE(groups_of_test_set(text).empty());
  EXPECT_TRUE(groups_of_test_set("no = TOML = at all").empty());
  EXPECT_FALSE(targets_of("[data]\ntarget = \"class\"\nformat = \"idx\"\npath = \"/nowhere\"\n", "x"));
}

const std::string kStudy =
    "[study]\nname = 'a'\nexperiment = 'e.toml'\nmetric = 'test.loss'\n[folds]\nkind = 'leave-one-group-out'\n"
    "folds = 2\ngroup = 'person'\n";

TEST(TestSet, FoldsWithSeveralGroupsAreToldApartFromThoseWithOne) {
  Study study = parse_study(kStudy, "s");
  take_split(study, "");
  auto cells = make_cells(study, "");
  double value = 0;
  for (Cell& cell : cells) {
    cell.state = CellState::finished;
    cell.value = value++;
    cell.groups = cell.fold == 0 ? Groups{"a", "b"} : Groups{"c"};
  }
  const auto warnings = [&] {
    std::string text;
    for (const std::string& warning : analyse(study, cells).warnings) text += warning + "\n";
    return text;
  };
  EXPECT_NE(warnings().find("fold 0 leaves 2 groups out, not one: the folds hold 3 groups, so set folds = 3"),
            std::string::npos)
      << warnings();
  cells[0].groups = {"a"};
  EXPECT_EQ(warnings().find("group"), std::string::npos) << warnings();
}

TEST(TestSet, TheExperimentsOwnSplitDecidesWhetherGroupsMayLeak) {
  const std::string text =
      "[study]\nname = 'a'\nexperiment = 'e.toml'\nmetric = 'test.loss'\n[factors]\nseed = '1..3'\n";
  const auto warned = [](const std::string& study_text, const std::string& experiment) {
    Study study = parse_study(study_text, "s");
    take_split(study, experiment);
    auto cells = make_cells(study, experiment);
    double value = 0;
    for (Cell& cell : cells) cell.state = CellState::finished, cell.value = value++;
    for (const std::string& warning : analyse(study, cells).warnings) {
      if (warning.find("has no group") != std::string::npos) return true;
    }
    return false;
  };
  EXPECT_FALSE(warned(text, "name = 'x'\n"));
  EXPECT_TRUE(warned(text, "[split]\nrule = 'random'\n"));
  EXPECT_FALSE(warned(text, "[split]\nrule = 'random'\ngroup = 'person'\n"));
  EXPECT_FALSE(warned(text + "[settings]\nsplit.group = 'person'\n", "[split]\nrule = 'random'\n"));
  EXPECT_TRUE(warned(text + "[folds]\nfolds = 3\n", ""));
  EXPECT_FALSE(warned(text + "[folds]\nfolds = 3\n", "[split]\ngroup = 'person'\n"));
  EXPECT_FALSE(warned(text + "[folds]\nfolds = 3\ngroup = 'person'\n", ""));
}

}  // namespace
}  // namespace isobit::study
