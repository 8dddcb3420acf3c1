#include "samples/split.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "archive/sha256.h"
#include "contract/order_plan.h"
#include "samples/sample_values.h"
#include "samples/subset.h"

namespace isobit::samples {
namespace {

// Samples whose label and group are functions of their number.
class Numbered : public Samples {
 public:
  Numbered(std::int64_t count, std::int64_t classes, std::int64_t groups)
      : count_(count), classes_(classes), groups_(groups) {}
  std::int64_t count() const override { return count_; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::size_t, std::span<const std::int64_t> ids, std::byte* out) const override {
    for (const std::int64_t id : ids) {
      const std::int64_t label = id * id % classes_;
      std::memcpy(out, &label, sizeof label);
      out += sizeof label;
    }
  }
  std::string name(std::int64_t id) const override { return "sample " + std::to_string(id); }
  // Of many sizes.
  std::string group(std::int64_t id) const override {
    return groups_ == 0 ? "" : "g" + std::to_string(id * id % groups_);
  }

 private:
  std::int64_t count_, classes_, groups_;
  std::vector<Field> fields_ = {{"labels", Element::int64, {}, Role::target}};
};

std::vector<std::int64_t> joined(const Split& split) {
  std::vector<std::int64_t> ids = split.train;
  ids.insert(ids.end(), split.test.begin(), split.test.end());
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::int64_t> all(std::int64_t n) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(Split, EveryRuleTakesEverySampleOnce) {
  for (const std::int64_t n : {5, 17, 100, 1003}) {
    const Numbered samples(n, 7, 0);
    for (const char* rule : {"random", "stratified", "blocks"}) {
      for (const std::int64_t folds : {2, 3, 5}) {
        std::vector<std::int64_t> tests;
        for (std::int64_t fold = 0; fold < folds; ++fold) {
          const Split split = make_split(samples, {rule, folds, fold, false}, 3);
          EXPECT_EQ(joined(split), all(n)) << rule;
          EXPECT_TRUE(std::is_sorted(split.train.begin(), split.train.end()));
          EXPECT_LE(static_cast<std::int64_t>(split.test.size()), n / folds + 1) << rule;
          EXPECT_GE(static_cast<std::int64_t>(split.test.size()), n / folds) << rule;
          EXPECT_EQ(split.samples_in_both, 0);
          tests.insert(tests.end(), split.test.begin(), split.test.end());
        }
        std::sort(tests.begin(), tests.end());
        EXPECT_EQ(tests, all(n)) << rule;
      }
    }
  }
}

TEST(Split, RandomIsThePlansOrder) {
  const Numbered samples(101, 2, 0);
  const contract::OrderPlan order(contract::OrderRule::shuffled, 42, 0, 101);
  std::set<std::int64_t> expected;
  for (std::uint64_t position = 1; position < 101; position += 4)
    expected.insert(static_cast<std::int64_t>(order(position)));
  const Split split = make_split(samples, {"random", 4, 1, false}, 42);
  EXPECT_EQ(split.test, std::vector<std::int64_t>(expected.begin(), expected.end()));
}

TEST(Split, StratifiedHasEveryClassInEqualParts) {
  const Numbered samples(997, 7, 0);
  const auto labels = values<std::int64_t>(samples, 0);
  std::map<std::int64_t, std::int64_t> sizes;
  for (const std::int64_t label : labels) ++sizes[label];
  for (std::int64_t fold = 0; fold < 5; ++fold) {
    std::map<std::int64_t, std::int64_t> tested;
    for (const std::int64_t id : make_split(samples, {"stratified", 5, fold, false}, 9).test)
      ++tested[labels[static_cast<std::size_t>(id)]];
    for (const auto& [label, size] : sizes) {
      EXPECT_GE(tested[label], size / 5);
      EXPECT_LE(tested[label], size / 5 + 1);
    }
  }
}

TEST(Split, BlocksAreContiguous) {
  const Numbered samples(11, 2, 0);
  EXPECT_EQ(make_split(samples, {"blocks", 3, 0, false}, 1).test, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(make_split(samples, {"blocks", 3, 1, false}, 2).test, (std::vector<std::int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(make_split(samples, {"blocks", 3, 2, false}, 3).test, (std::vector<std::int64_t>{8, 9, 10}));
}

TEST(Split, GroupsStayTogether) {
  const Numbered samples(2000, 3, 97);
  for (std::int64_t fold = 0; fold < 4; ++fold) {
    const Split split = make_split(samples, {"random", 4, fold, true}, 5);
    EXPECT_EQ(joined(split), all(2000));
    std::set<std::string> train, test;
    for (const std::int64_t id : split.train) train.insert(samples.group(id));
    for (const std::int64_t id : split.test) test.insert(samples.group(id));
    for (const std::string& group : test) EXPECT_FALSE(train.contains(group));
    EXPECT_EQ(split.train_groups, static_cast<std::int64_t>(train.size()));
    EXPECT_EQ(split.test_groups, static_cast<std::int64_t>(test.size()));
    EXPECT_EQ(split.groups_in_both, 0);
    EXPECT_NEAR(static_cast<double>(split.test.size()), 500, 60);  // the smallest fold takes the next group
  }
  // A rule without groups tears them apart, and the proof says so.
  EXPECT_GT(make_split(samples, {"random", 4, 0, false}, 5).groups_in_both, 0);
}

// The contract's values: a changed one makes every recorded split another.
TEST(Split, KeepsItsGoldenValues) {
  const auto digest = [](const Samples& samples, const SplitSettings& settings, std::uint64_t seed) {
    std::string text;
    for (const std::int64_t id : make_split(samples, settings, seed).test) text += std::to_string(id) + "\n";
    return archive::sha256(text).substr(0, 16);
  };
  const Numbered samples(1000, 7, 37);
  EXPECT_EQ(digest(samples, {"random", 5, 0, false}, 1), "7d214e1953e4d4e9");
  EXPECT_EQ(digest(samples, {"random", 5, 4, false}, 0xfedcba9876543210), "66be4b3a148453b6");
  EXPECT_EQ(digest(samples, {"random", 5, 1, true}, 1), "13e03112665baed6");
  EXPECT_EQ(digest(samples, {"stratified", 5, 2, false}, 1), "b627b39df5946150");
  EXPECT_EQ(digest(samples, {"blocks", 7, 3, false}, 1), "05d67e14b47c1cb7");
  EXPECT_EQ(make_split(Numbered(10, 2, 0), {"random", 5, 0, false}, 1).test, (std::vector<std::int64_t>{1, 3}));
}

TEST(Split, SaysWhatCannotBe) {
  const Numbered samples(10, 3, 4), plain(10, 3, 0);
  const auto error = [](const Samples& of, const SplitSettings& settings) {
    return error_of([&] { (void)make_split(of, settings, 1); });
  };
  EXPECT_EQ(error(samples, {"randm", 5, 0, false}), "split.rule: no rule 'randm' (did you mean 'random'?)");
  EXPECT_NE(error(samples, {"random", 1, 0, false}).find("split.folds: 1 folds"), std::string::npos);
  EXPECT_NE(error(samples, {"random", 5, 5, false}).find("split.fold: no fold 5 of 5"), std::string::npos);
  EXPECT_NE(error(samples, {"random", 5, -1, false}).find("split.fold: no fold -1 of 5"), std::string::npos);
  EXPECT_NE(error(samples, {"random", 11, 0, false}).find("10 samples do not fill 11 folds"), std::string::npos);
  EXPECT_NE(error(samples, {"random", 5, 0, true}).find("2 groups do not fill 5 folds"), std::string::npos);
  EXPECT_NE(error(plain, {"random", 5, 0, true}).find("sample 0: has no group"), std::string::npos);
  EXPECT_NE(error(samples, {"stratified", 2, 0, true}).find("stratified does not keep groups together"),
            std::string::npos);
  EXPECT_NE(error(samples, {"blocks", 2, 0, true}).find("blocks does not keep groups together"), std::string::npos);
  EXPECT_THROW((void)make_split(samples, {"files", 5, 0, false}, 1), std::invalid_argument);
}

TEST(Split, IsToldInOneLine) {
  Split split;
  split.train.resize(812);
  split.test.resize(210);
  EXPECT_EQ(split_text(split, {"stratified", 5, 0, false}),
            "fold 0 of 5, stratified: 812 samples train, 210 test; no sample in both");
  split.train_groups = 24;
  split.test_groups = 7;
  EXPECT_EQ(
      split_text(split, {"random", 5, 1, true}),
      "fold 1 of 5 by group, random: 812 samples of 24 groups train, 210 of 7 test; no group and no sample in both");
  split.groups_in_both = 3;
  EXPECT_EQ(split_text(split, {"random", 5, 1, false}),
            "fold 1 of 5, random: 812 samples of 24 groups train, 210 of 7 test; 3 groups and no sample in both");
}

TEST(Subset, RenumbersItsSamples) {
  const auto samples = std::make_shared<Numbered>(10, 7, 4);
  const auto some = subset(samples, {9, 2, 5});
  EXPECT_EQ(some->count(), 3);
  EXPECT_EQ(some->fields(), samples->fields());
  EXPECT_EQ(values<std::int64_t>(*some, 0, {2, 0}), (std::vector<std::int64_t>{25 % 7, 81 % 7}));
  EXPECT_EQ(some->name(1), "sample 2");
  EXPECT_EQ(some->group(0), samples->group(9));
  EXPECT_EQ(some->weight(0), 1);
  EXPECT_EQ(some->targets(0), -1);
  EXPECT_EQ(first_of(some, 2)->count(), 2);
  EXPECT_EQ(first_of(some, 2)->name(1), "sample 2");
  EXPECT_EQ(first_of(some, 3), some);
  EXPECT_EQ(subset(samples, {})->count(), 0);
  EXPECT_THROW((void)some->name(3), std::out_of_range);
  EXPECT_THROW((void)values<std::int64_t>(*first_of(some, 2), 0, {2}), std::out_of_range);
  EXPECT_THROW((void)subset(samples, {1, 1}), std::invalid_argument);
  EXPECT_THROW((void)subset(samples, {10}), std::invalid_argument);
}

}  // namespace
}  // namespace isobit::samples
