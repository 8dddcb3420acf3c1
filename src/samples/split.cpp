#include "samples/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <unordered_set>

#include "archive/user_error.h"
#include "contract/order_plan.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

using archive::UserError;

// The fold of each sample.
using Folds = std::vector<std::int64_t>;

contract::OrderPlan order_of(std::uint64_t seed, std::uint64_t epoch, std::size_t n) {
  return {contract::OrderRule::shuffled, seed, epoch, n};
}

void expect_enough(std::int64_t n, const char* what, const SplitSettings& settings) {
  if (n >= settings.folds) return;
  throw UserError("split.folds", fmt::format("{} {} do not fill {} folds", n, what, settings.folds),
                  "lower split.folds, or add data");
}

Folds random_folds(std::int64_t n, const SplitSettings& settings, std::uint64_t seed) {
  Folds folds(static_cast<std::size_t>(n));
  const auto order = order_of(seed, 0, folds.size());
  for (std::uint64_t position = 0; position < order.size(); ++position)
    folds[order(position)] = static_cast<std::int64_t>(position % static_cast<std::uint64_t>(settings.folds));
  return folds;
}

// Whole groups, in the plan's order, each into the fold that has the fewest samples so far.
Folds grouped_folds(const Samples& samples, const SplitSettings& settings, std::uint64_t seed) {
  std::map<std::string, std::vector<std::int64_t>> groups;  // ascending by bytes
  for (std::int64_t id = 0; id < samples.count(); ++id) {
    const std::string group = samples.group(id);
    if (group.empty()) throw UserError(samples.name(id), "has no group", "name its group, or leave split.group out");
    groups[group].push_back(id);
  }
  expect_enough(static_cast<std::int64_t>(groups.size()), "groups", settings);
  std::vector<const std::vector<std::int64_t>*> sorted;
  for (const auto& [name, members] : groups) sorted.push_back(&members);

  Folds folds(static_cast<std::size_t>(samples.count()));
  std::vector<std::size_t> sizes(static_cast<std::size_t>(settings.folds));
  const auto order = order_of(seed, 0, sorted.size());
  for (std::uint64_t position = 0; position < order.size(); ++position) {
    const auto& members = *sorted[order(position)];
    const auto smallest = std::min_element(sizes.begin(), sizes.end());  // the lowest among equals
    for (const std::int64_t id : members) folds[static_cast<std::size_t>(id)] = smallest - sizes.begin();
    *smallest += members.size();
  }
  return folds;
}

// The number of the one target that is a class.
std::size_t class_field(const Samples& samples) {
  const auto& fields = samples.fields();
  std::size_t found = fields.size();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].role != Role::target || fields[i].element != Element::int64 || !fields[i].shape.empty()) continue;
    if (found != fields.size())
      throw UserError("split.rule", "stratified: the samples have several classes", "use rule random");
    found = i;
  }
  if (found == fields.size())
    throw UserError("split.rule", "stratified: the samples have no classes", "use rule random");
  return found;
}

// Within each class as random_folds; a class begins with the fold behind the one where the class before it ended.
Folds stratified_folds(const Samples& samples, const SplitSettings& settings, std::uint64_t seed) {
  const std::size_t field = class_field(samples);
  std::map<std::int64_t, std::vector<std::int64_t>> classes;
  std::vector<std::int64_t> ids, labels;
  for (std::int64_t begin = 0; begin < samples.count(); begin += 4096) {
    ids.clear();
    for (std::int64_t id = begin; id < std::min(begin + 4096, samples.count()); ++id) ids.push_back(id);
    labels.resize(ids.size());
    samples.read(field, ids, reinterpret_cast<std::byte*>(labels.data()));
    for (std::size_t i = 0; i < ids.size(); ++i) classes[labels[i]].push_back(ids[i]);
  }
  Folds folds(static_cast<std::size_t>(samples.count()));
  std::uint64_t number = 0, before = 0;
  for (const auto& [label, members] : classes) {
    const auto order = order_of(seed, number++, members.size());
    for (std::uint64_t position = 0; position < order.size(); ++position) {
      folds[static_cast<std::size_t>(members[order(position)])] =
          static_cast<std::int64_t>((before + position) % static_cast<std::uint64_t>(settings.folds));
    }
    before += members.size();
  }
  return folds;
}

// Contiguous; the first ones have one sample more where they are not all of one size.
Folds block_folds(std::int64_t n, const SplitSettings& settings) {
  Folds folds(static_cast<std::size_t>(n));
  const std::int64_t size = n / settings.folds, larger = n % settings.folds;
  for (std::int64_t id = 0; id < n; ++id) {
    const std::int64_t in_larger = larger * (size + 1);
    folds[static_cast<std::size_t>(id)] = id < in_larger ? id / (size + 1) : larger + (id - in_larger) / size;
  }
  return folds;
}

Folds folds_by_rule(const Samples& samples, const SplitSettings& settings, std::uint64_t seed) {
  const auto ungrouped = [&] {
    if (settings.grouped)
      throw UserError("split.rule", fmt::format("{} does not keep groups together", settings.rule),
                      "use rule random with split.group");
  };
  if (settings.rule == "random")
    return settings.grouped ? grouped_folds(samples, settings, seed) : random_folds(samples.count(), settings, seed);
  ungrouped();
  if (settings.rule == "stratified") return stratified_folds(samples, settings, seed);
  if (settings.rule == "blocks") return block_folds(samples.count(), settings);
  const std::vector<std::string> rules = {"files", "random", "stratified", "blocks"};
  throw UserError("split.rule", fmt::format("no rule '{}'", settings.rule), name_remedy(settings.rule, rules, "rules"));
}

std::unordered_set<std::string> groups_of(const Samples& samples, const std::vector<std::int64_t>& ids) {
  std::unordered_set<std::string> groups;
  for (const std::int64_t id : ids) {
    std::string group = samples.group(id);
    if (!group.empty()) groups.insert(std::move(group));
  }
  return groups;
}

// From the two parts alone, whatever rule made them.
void count_again(const Samples& samples, Split& split) {
  std::vector<bool> trains(static_cast<std::size_t>(samples.count()));
  for (const std::int64_t id : split.train) trains.at(static_cast<std::size_t>(id)) = true;
  for (const std::int64_t id : split.test) split.samples_in_both += trains.at(static_cast<std::size_t>(id)) ? 1 : 0;
  const auto train = groups_of(samples, split.train), test = groups_of(samples, split.test);
  split.train_groups = static_cast<std::int64_t>(train.size());
  split.test_groups = static_cast<std::int64_t>(test.size());
  for (const std::string& group : test) split.groups_in_both += train.contains(group) ? 1 : 0;
}

}  // namespace

Split make_split(const Samples& samples, const SplitSettings& settings, std::uint64_t seed) {
  if (settings.rule == "files") throw std::invalid_argument("files are no split");
  if (settings.folds < 2)
    throw UserError("split.folds", fmt::format("{} folds", settings.folds), "set it to 2 or more");
  if (settings.fold < 0 || settings.fold >= settings.folds)
    throw UserError("split.fold", fmt::format("no fold {} of {}", settings.fold, settings.folds),
                    fmt::format("0 to {}", settings.folds - 1));
  expect_enough(samples.count(), "samples", settings);
  const Folds folds = folds_by_rule(samples, settings, seed);
  Split split;
  for (std::int64_t id = 0; id < samples.count(); ++id)
    (folds[static_cast<std::size_t>(id)] == settings.fold ? split.test : split.train).push_back(id);
  if (split.train.empty() || split.test.empty())
    throw UserError("split.fold", fmt::format("the {} part is empty", split.test.empty() ? "test" : "training"),
                    "lower split.folds, or take another fold");
  count_again(samples, split);
  if (split.samples_in_both != 0 || (settings.grouped && split.groups_in_both != 0))
    throw std::logic_error("a split put a sample or group into both parts");
  return split;
}

std::string split_text(const Split& split, const SplitSettings& settings) {
  const auto part = [](std::size_t samples, std::int64_t groups, const char* name) {
    const std::string of = groups > 0 ? fmt::format(" of {}", groups) : "";
    return std::pair{fmt::format("{}", samples), of + name};
  };
  const auto number = [](std::int64_t n) { return n == 0 ? std::string("no") : std::to_string(n); };
  const bool groups = split.train_groups + split.test_groups > 0;
  const auto train = part(split.train.size(), split.train_groups, groups ? " groups" : "");
  const auto test = part(split.test.size(), split.test_groups, "");
  const std::string both =
      groups ? fmt::format("{} group{} and ", number(split.groups_in_both), split.groups_in_both > 1 ? "s" : "") : "";
  return fmt::format("fold {} of {}{}, {}: {} samples{} train, {}{} test; {}{} sample{} in both", settings.fold,
                     settings.folds, settings.grouped ? " by group" : "", settings.rule, train.first, train.second,
                     test.first, test.second, both, number(split.samples_in_both),
                     split.samples_in_both > 1 ? "s" : "");
}

}  // namespace isobit::samples
