// From a study's file to its results: designs, units that count once, and samples under several runs.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "archive/small_run.h"
#include "study/analysis.h"
#include "study/baselines.h"
#include "study/cells.h"
#include "study/results_text.h"
#include "study/study_file.h"

namespace isobit::study {
namespace {

using archive::error_of;

const std::string kHead = "[study]\nname = 'a'\nexperiment = 'e.toml'\nmetric = 'test.accuracy'\n";
const std::string kCompared = kHead + "compare = 'model.name'\n[factors]\nmodel.name = ['mlp', 'lenet5']\n";

// Cells whose values `value` gives, all finished.
template <class Value>
std::vector<Cell> finished_cells(const Study& study, const Value& value) {
  std::vector<Cell> cells = make_cells(study, "");
  for (Cell& cell : cells) {
    cell.state = CellState::finished;
    cell.run = cell.key;
    cell.value = value(cell);
  }
  return cells;
}

double seed_of(const Cell& cell) { return std::stod(cell.level("seed")->text); }
bool is_second(const Cell& cell) { return cell.level("model.name")->text == "lenet5"; }

TEST(StudyFile, WritesWhatItReads) {
  const std::string text = kHead +
                           "design = 'sampled'\nsamples = 2\nrepeats = 3\nalpha = 0.01\nbetter = 'lower'\nseed = 9\n"
                           "[settings]\nepochs = 2\noptimizer.betas = [0.9, 0.99]\n"
                           "[factors]\nmodel.hidden = [[512, 256], [64]]\noptimizer.lr = [1e-5, 0.1, 1.0]\n"
                           "optimizer.nesterov = [true, false]\ndata.path = [\"a \\\"b\\\"\\n\", \"\\u00e9\"]\n"
                           "[folds]\nkind = 'leave-one-group-out'\nfolds = 4\ngroup = 'subject'\n";
  const Study study = parse_study(text, "x/study.toml");
  EXPECT_EQ(study.experiment, "x/e.toml");
  EXPECT_EQ(study.find("optimizer.lr")->levels[2].toml, "1.0");  // stays a number with a point
  EXPECT_EQ(study.find("model.hidden")->levels[0].toml, "[512, 256]");
  const std::string written = to_toml(study, "e.toml");
  EXPECT_EQ(to_toml(parse_study(written, "x/study.toml"), "e.toml"), written);
  EXPECT_EQ(parse_study(written, "x/study.toml").find("data.path")->levels, study.find("data.path")->levels);
}

TEST(StudyFile, AlgorithmsSetSeveralKeysAndAreComparedByThemselves) {
  const std::string text = kHead +
                           "[factors]\nseed = '1..2'\n[algorithms.sgd]\noptimizer.name = 'sgd'\noptimizer.lr = 0.1\n"
                           "[algorithms.adam]\noptimizer.name = 'adam'\n";
  const Study study = parse_study(text, "s");
  EXPECT_EQ(study.compare, "algorithm");
  EXPECT_EQ(parse_study(to_toml(study, "e.toml"), "s").find("algorithm")->levels, study.find("algorithm")->levels);
  const auto cells = make_cells(study, "");
  // The first in the file is the first of the comparison.
  EXPECT_EQ(overrides_of(study, cells[0]),
            (std::vector<std::string>{"optimizer.name=\"sgd\"", "optimizer.lr=0.1", "seed=1"}));
  EXPECT_EQ(overrides_of(study, cells[2]), (std::vector<std::string>{"optimizer.name=\"adam\"", "seed=1"}));
  const auto error = [&](const std::string& more) {
    return error_of([&] { static_cast<void>(parse_study(text + more, "s")); });
  };
  EXPECT_NE(error("[settings]\noptimizer.lr = 1.0\n").find("set by an algorithm and elsewhere"), std::string::npos);
  EXPECT_NE(error("[algorithms.c]\nthreads = 2\n").find("is no key of an experiment"), std::string::npos);
  EXPECT_NE(error("[algorithms.c]\nseed = 2\n").find("set by an algorithm and elsewhere"), std::string::npos);
}

TEST(Cells, OfACrossedDesignAreAllCombinationsOnce) {
  const Study study =
      parse_study(kHead + "repeats = 2\n[factors]\nseed = '0..4'\nbatch = [32, 64]\n[folds]\nfolds = 3\n", "s");
  const auto cells = make_cells(study, "experiment");
  EXPECT_EQ(cells.size(), 5u * 2 * 3 * 2);
  std::set<std::string> keys, words;
  for (const Cell& cell : cells) {
    keys.insert(cell.key);
    words.insert(cell.text());
  }
  EXPECT_EQ(keys.size(), cells.size());
  EXPECT_EQ(words.size(), cells.size());
  // The key is that of the run: another experiment has other runs, another list of levels the same.
  EXPECT_NE(make_cells(study, "other")[0].key, cells[0].key);
  const Study grown =
      parse_study(kHead + "repeats = 2\n[factors]\nseed = '0..9'\nbatch = [64, 32]\n[folds]\nfolds = 3\n", "s");
  std::set<std::string> grown_keys;
  for (const Cell& cell : make_cells(grown, "experiment")) grown_keys.insert(cell.key);
  EXPECT_TRUE(std::includes(grown_keys.begin(), grown_keys.end(), keys.begin(), keys.end()));
}

TEST(Cells, AreReadBackAsTheyWereWritten) {
  const archive::Scratch scratch;
  const Study study = parse_study(kHead + "[factors]\nseed = '1..3'\n", "s");
  auto cells = finished_cells(study, [](const Cell& cell) { return seed_of(cell) / 3; });
  cells[1].state = CellState::running;
  cells[2].state = CellState::failed, cells[2].value.reset(), cells[2].note = "why \"so\"\n\x80";
  archive::write_file(scratch.path() / "cells.json", format_cells(study, cells));
  auto read = make_cells(study, "");
  take_states(read, scratch.path() / "cells.json");
  EXPECT_EQ(read[0].value, cells[0].value);
  EXPECT_EQ(read[0].state, CellState::finished);
  EXPECT_EQ(read[1].state, CellState::waiting);  // whether it still runs is looked at
  EXPECT_EQ(read[2].state, CellState::failed);
  for (const char* text : {"", "{}", "[]", "{\"format\":\"isobit-study-cells-1\"}", "{\"format\":1,\"cells\":[]}"}) {
    archive::write_file(scratch.path() / "cells.json", text);
    EXPECT_NE(error_of([&] { take_states(read, scratch.path() / "cells.json"); }), "") << text;
  }
}

TEST(Analysis, CountsCopiesOfOneResultOnce) {
  // Six seeds whose runs are made four times with the same bits: six values, not 24, whatever is asked of them.
  const std::string seeds = "seed = '1..6'\n";
  const auto value = [](const Cell& cell) {
    return 0.8 + 0.01 * seed_of(cell) + (is_second(cell) ? 0.002 * seed_of(cell) : 0);
  };
  const Study once = parse_study(kCompared + seeds, "s");
  const Study copied = parse_study(kCompared + seeds + "threads = [1, 2, 3, 4]\n", "s");
  const Results a = analyse(once, finished_cells(once, value)), b = analyse(copied, finished_cells(copied, value));
  EXPECT_EQ(b.summary[0].n, 6);
  EXPECT_EQ(b.summary[0].sd, a.summary[0].sd);
  EXPECT_EQ(b.summary[0].interval.low, a.summary[0].interval.low);
  EXPECT_EQ(b.comparisons[0].n, 6);
  EXPECT_EQ(b.comparisons[0].p_permutation, a.comparisons[0].p_permutation);
  EXPECT_EQ(b.comparisons[0].p_permutation, 2.0 / 64);
  EXPECT_EQ(b.comparisons[0].verdict, "lenet5 is better");
  EXPECT_EQ(b.findings.size(), 1u);
}

// Two versions of PyTorch name their fingerprints differently; the digits are of the values.
TEST(Analysis, WeightsOfTwoVersionsAreComparedByTheirDigits) {
  const Study study = parse_study(
      "[study]\nname = 'a'\nscript = 'x.py'\nmetric = 'test.accuracy'\n[factors]\nseed = [1, 2]\n"
      "[environments]\nnew = '/n/python'\nold = '/o/python'\n",
      "s");
  std::vector<Cell> cells = finished_cells(study, [](const Cell&) { return 0.5; });
  const auto finding = [&](const std::string& old_digit) {
    for (Cell& cell : cells) {
      const bool is_new = cell.level("environment")->text == "new";
      cell.weights =
          is_new ? "stock-2.15.0:" + std::string(32, 'a') : "stock-2.13.0:" + old_digit + std::string(31, 'a');
    }
    const Results results = analyse(study, cells);
    return results.findings.at(0);
  };
  EXPECT_NE(finding("a").find("environment: nothing moves"), std::string::npos) << finding("a");
  EXPECT_NE(finding("b").find("weights differ in 2 of 2"), std::string::npos) << finding("b");
}

TEST(Analysis, PairsAreMatchedSoThatASharedSeedIsNoNoise) {
  const Study study = parse_study(kCompared + "seed = '1..8'\n", "s");
  // Seeds spread by 0.1, the algorithms differ by 0.001 within each: unpaired, nobody would see it.
  const auto cells = finished_cells(study, [](const Cell& cell) {
    return 0.1 * std::fmod(seed_of(cell) * 3, 8) + (is_second(cell) ? 0.001 + 0.0001 * seed_of(cell) : 0);
  });
  const Comparison c = analyse(study, cells).comparisons[0];
  EXPECT_EQ(c.p_permutation, 2.0 / 256);
  EXPECT_NEAR(c.difference, 0.001 + 0.0001 * 4.5, 1e-12);
  EXPECT_LT(c.noise, 0.001);
}

TEST(Analysis, SaysHowManyRunsAreStillNeeded) {
  const Study study = parse_study(kCompared + "seed = '1..6'\n", "s");
  const auto cells = finished_cells(
      study, [](const Cell& cell) { return is_second(cell) ? 0.01 * std::fmod(seed_of(cell) * 5, 7) - 0.02 : 0; });
  const Comparison c = analyse(study, cells).comparisons[0];
  ASSERT_TRUE(c.runs_needed);
  EXPECT_GT(*c.runs_needed, 0);
  EXPECT_EQ(*c.runs_needed % 2, 0);  // pairs
  EXPECT_NE(c.verdict.find("about " + std::to_string(*c.runs_needed) + " more runs would decide"), std::string::npos)
      << c.verdict;
}

TEST(Analysis, ManyComparisonsAreHeldToMore) {
  const Study study =
      parse_study(kHead + "compare = 'model.name'\n[factors]\nmodel.name = ['a', 'b', 'c', 'd']\nseed = '1..6'\n", "s");
  // All six differences of d are positive (p = 1/32), which one comparison would call real, and six do not.
  const auto cells = finished_cells(study, [](const Cell& cell) {
    const bool last = cell.level("model.name")->text == "d";
    const int other = cell.level("model.name")->text[0];
    return last ? 1 + 0.01 * seed_of(cell) : 0.1 * std::fmod(seed_of(cell) * other, 5);
  });
  const Results results = analyse(study, cells);
  EXPECT_EQ(results.comparisons.size(), 6u);
  for (const Comparison& c : results.comparisons) {
    if (c.b.text != "d") continue;
    EXPECT_EQ(c.p_permutation, 2.0 / 64);
    EXPECT_NEAR(c.p_adjusted, 6.0 / 32, 1e-12);
    EXPECT_TRUE(c.verdict.starts_with("no verdict")) << c.verdict;
  }
}

TEST(Analysis, McNemarCountsEachSampleOnceHoweverManyRunsSeeIt) {
  const Study study = parse_study(kCompared + "seed = '1..3'\n", "s");
  const auto cells = finished_cells(study, [](const Cell& cell) { return seed_of(cell); });
  // Ten samples: the second algorithm alone is right on nine, the first on one; with every seed alike.
  const auto hits = [](const Cell& cell) -> std::optional<SampleHits> {
    SampleHits h{"digest", std::vector<bool>(12, true)};
    for (int i = 0; i < 10; ++i) h.right[i] = is_second(cell) == (i < 9);
    return h;
  };
  EXPECT_NEAR(*analyse(study, cells, hits).comparisons[0].p_mcnemar, 22.0 / 1024, 1e-12);
  // Runs on other samples are not compared by sample.
  const auto others = [&](const Cell& cell) {
    auto h = hits(cell);
    h->samples += is_second(cell) ? "x" : "";
    return h;
  };
  EXPECT_EQ(analyse(study, cells, others).comparisons[0].p_mcnemar, std::nullopt);
  EXPECT_EQ(analyse(study, cells, [](const Cell&) { return std::nullopt; }).comparisons[0].p_mcnemar, std::nullopt);
}

TEST(Analysis, FoldsThatJudgeManySettingsAreWarnedOf) {
  const Study study = parse_study(kCompared + "optimizer.lr = [0.1, 0.2]\n[folds]\nfolds = 10\n", "s");
  const auto cells = finished_cells(
      study, [](const Cell& cell) { return static_cast<double>(*cell.fold) + (is_second(cell) ? 0.5 : 0); });
  const Results results = analyse(study, cells);
  const std::string text = results_text(study, results);
  EXPECT_NE(text.find("the same folds judge 4 settings"), std::string::npos) << text;
  EXPECT_NE(text.find("[folds] has no group"), std::string::npos);
  EXPECT_EQ(results.unit, "fold");
  EXPECT_EQ(results.comparisons[0].n, 10);
}

TEST(Analysis, JsonHasNoNumberThatIsNone) {
  const Study study = parse_study(kCompared, "s");
  for (const bool done : {false, true}) {
    auto cells = done ? finished_cells(study, [](const Cell&) { return 0.5; }) : make_cells(study, "");
    const auto json = nlohmann::json::parse(results_json(study, analyse(study, cells)));
    EXPECT_EQ(json["format"], "isobit-study-1");
    EXPECT_TRUE(!done || json["summary"][0]["sd"].is_null());
    EXPECT_FALSE(results_text(study, analyse(study, cells)).empty());
  }
}

TEST(Baselines, HaveOneSpellingAndTakeNoOther) {
  CalibrationLine line{"2026-11-23T00:00:00Z", "lenet", "id", Verdict::moved, "isobit-0.1:00", {{"test.loss", 0.1}},
                       {{"run.isa", "avx2"}},  "why"};
  std::string text = format_line(line);
  ASSERT_EQ(text.back(), '\n');
  text.pop_back();
  CalibrationLine read;
  ASSERT_TRUE(parse_line(text, read));
  EXPECT_EQ(read, line);
  for (std::size_t i = 0; i < text.size(); ++i) {  // each byte left out, or a blank before it
    EXPECT_FALSE(parse_line(text.substr(0, i), read)) << i;
    const std::string blank = text.substr(0, i) + " " + text.substr(i);
    EXPECT_TRUE(!parse_line(blank, read) || format_line(read) == blank + "\n") << i;
  }
}

}  // namespace
}  // namespace isobit::study
