#include "study/test_set.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "archive/sha256.h"
#include "samples/source.h"
#include "samples/split.h"
#include "samples/subset.h"
#include "study/toml_text.h"

namespace isobit::study {
namespace {

using archive::UserError;

std::string text_in(const toml::table& table, const char* path) { return table.at_path(path).value_or(std::string()); }

std::vector<std::string> texts_in(const toml::table& table, const char* path) {
  std::vector<std::string> texts;
  if (const toml::array* list = table.at_path(path).as_array()) {
    for (const toml::node& node : *list) texts.push_back(node.value_or(std::string()));
  }
  return texts;
}

std::shared_ptr<const samples::Samples> open_in(const toml::table& table) {
  const std::string rule = table.at_path("split.rule").value_or(std::string("files"));
  const bool files = rule == "files";
  samples::Source source;
  source.format = text_in(table, "data.format");
  source.folder = text_in(table, "data.path");
  const bool idx = source.format == "idx";
  source.file =
      text_in(table, idx ? (files ? "data.test_images" : "data.train_images") : (files ? "data.test" : "data.train"));
  if (idx) source.labels = text_in(table, files ? "data.test_labels" : "data.train_labels");
  if (source.format == "images") source.table = text_in(table, files ? "data.test_table" : "data.train_table");
  source.inputs = texts_in(table, "data.inputs");
  source.targets = texts_in(table, "data.targets");
  source.group = text_in(table, "split.group");
  source.weight = text_in(table, "data.weight");
  source.count = text_in(table, "data.count");
  source.window = table.at_path("data.window").value_or(std::int64_t{0});
  const std::string target = text_in(table, "data.target");
  source.whole_targets = target != "value" && target != "labels";
  source.masks = target == "mask";
  auto set = samples::open_source(source);
  if (!files) {
    const samples::SplitSettings settings{rule, table.at_path("split.folds").value_or(std::int64_t{5}),
                                          table.at_path("split.fold").value_or(std::int64_t{0}), !source.group.empty()};
    samples::Split made =
        samples::make_split(*set, settings, static_cast<std::uint64_t>(table["seed"].value_or(std::int64_t{0})));
    set = samples::subset(set, std::move(made.test));
  }
  const std::int64_t limit = table.at_path("data.test_limit").value_or(std::int64_t{0});
  return limit > 0 ? samples::first_of(set, limit) : set;
}

}  // namespace

std::shared_ptr<const samples::Samples> open_test_set(const std::string& experiment) {
  return open_in(parse_table(experiment, "experiment.toml"));
}

std::optional<std::vector<std::int64_t>> targets_of(const std::string& experiment, const std::string& digest) {
  static_assert(std::endian::native == std::endian::little, "targets are hashed as they lie in memory");
  try {
    const toml::table table = parse_table(experiment, "experiment.toml");
    if (text_in(table, "data.target") != "class") return std::nullopt;
    const auto set = open_in(table);
    const auto& fields = set->fields();
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [](const samples::Field& f) { return f.role == samples::Role::target; });
    if (field == fields.end() || field->element != samples::Element::int64 || !field->shape.empty())
      return std::nullopt;
    std::vector<std::int64_t> ids(static_cast<std::size_t>(set->count())), targets(ids.size());
    std::iota(ids.begin(), ids.end(), std::int64_t{0});
    set->read(static_cast<std::size_t>(field - fields.begin()), ids, reinterpret_cast<std::byte*>(targets.data()));
    const std::string_view bytes(reinterpret_cast<const char*>(targets.data()), targets.size() * sizeof targets[0]);
    if (archive::sha256(bytes) != digest) return std::nullopt;
    return targets;
  } catch (const UserError&) {  // files that are not here: the comparison goes without
    return std::nullopt;
  }
}

std::vector<std::string> groups_of_test_set(const std::string& experiment) {
  try {
    const toml::table table = parse_table(experiment, "experiment.toml");
    if (text_in(table, "split.group").empty()) return {};
    const auto set = open_in(table);
    std::set<std::string> groups;
    for (std::int64_t id = 0; id < set->count(); ++id) groups.insert(set->group(id));
    groups.erase("");
    return {groups.begin(), groups.end()};
  } catch (const UserError&) {  // files that are not here
    return {};
  }
}

}  // namespace isobit::study
