// Stock PyTorch beside isobit: the same start and the same batches; seeds that stand for one thing each; predictions of
// evaluations. That a stock run is an ordinary PyTorch loop is tests/python/stock_test.py.
#include "train/arithmetic.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "archive/sha256.h"
#include "archive/user_error.h"
#include "aten/operator_switch.h"
#include "kernels/threads.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"

namespace isobit::train {
namespace {

constexpr const char* kExperiment =
    "seed = 5\nsteps = 6\nbatch = 16\n[model]\nname = \"mlp\"\nhidden = [24]\ndropout = 0.25\n"
    "[augment]\ncrop = 1\nflip = true\n[optimizer]\nname = \"adamw\"\nlr = 0.002\n[evaluate]\nbatch = 7\n";

Experiment experiment(const std::vector<std::string>& overrides = {}) {
  return parse_experiment(kExperiment, "test", overrides);
}

// What a run's first step shows of each source of random numbers.
struct Shown {
  std::string start, batch, weights;
  float loss = 0;
};

std::vector<Shown> shown(const Experiment& e, std::int64_t steps = 1) {
  const DataSets data = synthetic_data(40, 9, 12);
  Trainer trainer(e, data);
  const std::string start = kernels::to_hex(trainer.weights_fingerprint());
  const ArithmeticScope arithmetic(e);
  std::vector<Shown> all;
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepResult step = trainer.step();
    all.push_back(
        {start, kernels::to_hex(step.batch_digest), kernels::to_hex(trainer.weights_fingerprint()), step.loss});
  }
  return all;
}

TEST(Seeds, EachStandsForOneThing) {
  const Shown one = shown(experiment()).front();
  struct Case {
    const char* key;
    bool start, batch;  // whether it changes them
  };
  for (const auto& [key, start, batch] :
       {Case{"init", true, false}, {"order", false, true}, {"augment", false, true}, {"dropout", false, false}}) {
    const Shown other = shown(experiment({std::string("seeds.") + key + "=6"})).front();
    EXPECT_EQ(other.start != one.start, start) << key;
    EXPECT_EQ(other.batch != one.batch, batch) << key;
    EXPECT_NE(other.loss, one.loss) << key;
    const Shown same = shown(experiment({std::string("seeds.") + key + "=5"})).front();
    EXPECT_EQ(same.weights, one.weights) << key;  // 5 is the one seed
  }
}

// Order and augmentation both change a batch; without augmentation its seed changes nothing.
TEST(Seeds, OrderIsNotAugmentation) {
  const std::vector<std::string> plain = {"augment.crop=0", "augment.flip=false"};
  auto with = plain;
  with.emplace_back("seeds.augment=6");
  EXPECT_EQ(shown(experiment(plain)).front().weights, shown(experiment(with)).front().weights);
  with.back() = "seeds.order=6";
  EXPECT_NE(shown(experiment(plain)).front().batch, shown(experiment(with)).front().batch);
}

TEST(Seeds, AllOtherGiveAnotherSeedsRun) {
  const Shown other =
      shown(experiment({"seeds.init=6", "seeds.order=6", "seeds.augment=6", "seeds.dropout=6"})).front();
  EXPECT_EQ(other.weights, shown(experiment({"seed=6"})).front().weights);
}

TEST(Seeds, StandInTheRecordOnlyWhereTheySaySomething) {
  EXPECT_EQ(to_toml(experiment()).find("seeds"), std::string::npos);
  EXPECT_EQ(to_toml(experiment({"seeds.init=-1"})), to_toml(experiment()));
  const std::string text = to_toml(experiment({"seeds.order=7", "arithmetic.kind=stock", "evaluate.predictions=true"}));
  EXPECT_NE(text.find("\n[arithmetic]\nkind = \"stock\"\n\n[seeds]\norder = 7\n\n[data]\n"), std::string::npos) << text;
  EXPECT_EQ(to_toml(recorded_experiment(text, "recorded")).find("init"), std::string::npos);
  for (const char* wrong : {"seeds.init=-2", "seeds.order=1.5", "seeds.shuffle=3", "arithmetic.kind=float"})
    EXPECT_THROW(static_cast<void>(experiment({wrong})), archive::UserError) << wrong;
}

TEST(Stock, StartsAndLearnsFromWhatIsobitDoes) {
  const auto certified = shown(experiment(), 4), stock = shown(experiment({"arithmetic.kind=stock"}), 4);
  EXPECT_EQ(certified[0].start, stock[0].start);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(certified[i].batch, stock[i].batch) << i;
  // Without dropout, whose numbers are the generator's, the arithmetics agree to some digits.
  const std::vector<std::string> whole = {"model.dropout=0"}, by_stock = {"model.dropout=0", "arithmetic.kind=stock"};
  for (const char* optimizer : {"sgd", "adam", "adamw", "lars"}) {
    auto a = whole, b = by_stock;
    for (auto* words : {&a, &b}) words->push_back(std::string("optimizer.name=") + optimizer);
    const auto x = shown(experiment(a), 6), y = shown(experiment(b), 6);
    EXPECT_NEAR(x.back().loss, y.back().loss, 1e-3) << optimizer;
    EXPECT_NE(x.back().loss, x.front().loss) << optimizer;
  }
}

TEST(Stock, DropoutFollowsItsOwnSeed) {
  const auto loss = [](const char* seed) {
    return shown(experiment({"arithmetic.kind=stock", std::string("seeds.dropout=") + seed}), 3).back().loss;
  };
  EXPECT_EQ(loss("5"), loss("5"));
  EXPECT_NE(loss("5"), loss("6"));
}

// A run stopped and restored draws what it would have drawn.
TEST(Stock, GoesOnFromAState) {
  const Experiment e = experiment({"arithmetic.kind=stock"});
  const DataSets data = synthetic_data(40, 9, 12);
  const ArithmeticScope arithmetic(e);
  Trainer straight(e, data), first(e, data), second(e, data);
  for (int i = 0; i < 5; ++i) straight.step();
  for (int i = 0; i < 2; ++i) first.step();
  seed_stock(99);
  second.restore(first.state());
  for (int i = 0; i < 3; ++i) second.step();
  EXPECT_EQ(straight.weights_fingerprint(), second.weights_fingerprint());
}

TEST(Stock, IsInForceAndLeavesWhatWas) {
  const Experiment stock = experiment({"arithmetic.kind=stock"});
  const int threads = at::get_num_threads(), before = kernels::thread_count();
  kernels::set_thread_count(2);
  {
    const ArithmeticScope arithmetic(stock);
    EXPECT_FALSE(aten::OperatorSwitch::on());
    EXPECT_EQ(at::get_num_threads(), 2);
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  }
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  {
    const ArithmeticScope arithmetic(experiment());
    EXPECT_TRUE(aten::OperatorSwitch::on());
    EXPECT_THROW(ArithmeticScope within(stock), std::logic_error);
  }
  EXPECT_FALSE(aten::OperatorSwitch::on());
  kernels::set_thread_count(before);
  EXPECT_EQ(contract_of(experiment().arithmetic), "isobit-0.1");
  EXPECT_TRUE(contract_of(stock.arithmetic).starts_with("stock-2."));
  EXPECT_EQ(stock_environment().at("arithmetic"), "stock");
  EXPECT_FALSE(stock_environment().at("cpu_capability").empty());
}

TEST(Stock, RefusesGrains) {
  EXPECT_THROW(static_cast<void>(experiment({"arithmetic.kind=stock", "grain=4"})), archive::UserError);
  EXPECT_NO_THROW(static_cast<void>(experiment({"arithmetic.kind=stock", "grain=16"})));  // the batch
}

TEST(Predictions, AreTheClassesThatTheAccuracyCounts) {
  const Experiment e = experiment({"evaluate.predictions=true"});
  const DataSets data = synthetic_data(40, 19, 12);
  Trainer trainer(e, data);
  Trainer silent(experiment(), data);
  const ArithmeticScope arithmetic(e);
  for (int i = 0; i < 6; ++i) trainer.step(), silent.step();
  const Evaluation evaluation = trainer.evaluate();
  ASSERT_TRUE(evaluation.predictions.has_value());
  EXPECT_FALSE(silent.evaluate().predictions.has_value());
  EXPECT_EQ(silent.evaluate().loss, evaluation.loss);
  const auto& [classes, targets] = *evaluation.predictions;
  ASSERT_EQ(classes.size(), 19U);
  std::int64_t right = 0;
  std::string bytes;
  const BatchMaker maker(e, *data.test);
  for (std::int64_t i = 0; i < 19; ++i) {
    const std::int64_t label = *made_by(maker, 1, i).const_data_ptr<std::int64_t>();
    right += classes[static_cast<std::size_t>(i)] == label;
    bytes += static_cast<char>(label) + std::string(7, '\0');
  }
  EXPECT_EQ(evaluation.score, static_cast<double>(right) / 19);
  EXPECT_EQ(targets, archive::sha256(bytes));
}

TEST(Predictions, NeedAClassPerSample) {
  for (const char* target : {"mask", "silhouette"}) {
    EXPECT_THROW(static_cast<void>(parse_experiment("[model]\nname = \"unet\"\n[evaluate]\npredictions = true\n",
                                                    "test", {std::string("data.target=") + target})),
                 archive::UserError);
  }
  EXPECT_THROW(
      static_cast<void>(parse_experiment("[data]\nformat = \"csv\"\ntarget = \"value\"\n[loss]\nname = \"mse\"\n"
                                         "[evaluate]\npredictions = true\n",
                                         "test")),
      archive::UserError);
}

TEST(Split, AFoldCanBeOverridden) {
  const Experiment e = parse_experiment("[split]\nrule = \"random\"\nfolds = 4\n", "test", {"split.fold=3"});
  EXPECT_EQ(e.split.fold, 3);
  EXPECT_THROW(static_cast<void>(parse_experiment("[split]\nrule = \"random\"\nfolds = 4\n", "test", {"split.fold=4"})),
               archive::UserError);
}

}  // namespace
}  // namespace isobit::train
