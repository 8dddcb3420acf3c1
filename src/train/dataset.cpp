#include "train/dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "archive/printable.h"
#include "archive/user_error.h"
#include "samples/split.h"
#include "samples/subset.h"
#include "train/task.h"

namespace isobit::train {
namespace {

using archive::UserError;
using samples::Samples;
using Part = std::shared_ptr<const Samples>;

samples::Source source_of(const Experiment& e, bool train) {
  const DataSettings& d = e.data;
  const bool idx = d.format == "idx";
  samples::Source source;
  source.format = d.format;
  source.folder = d.path;
  source.file = idx ? (train ? d.train_images : d.test_images) : (train ? d.train : d.test);
  if (idx) source.labels = train ? d.train_labels : d.test_labels;
  if (d.format == "images") source.table = train ? d.train_table : d.test_table;
  source.inputs = d.inputs;
  source.targets = d.targets;
  source.group = e.split.group;
  source.weight = d.weight;
  source.count = d.count;
  source.window = d.window;
  source.whole_targets = d.target != "value" && d.target != "labels";
  source.masks = d.target == "mask";
  source.settings = d.settings;
  return source;
}

// Masks made of images and their labels: label + 1 where a pixel is above 0, else 0.
class Silhouettes final : public Samples {
 public:
  explicit Silhouettes(Part of) : of_(std::move(of)) {
    const samples::Field& images = of_->fields()[0];
    fields_ = {images, {"labels", samples::Element::int64, {images.shape[1], images.shape[2]}, samples::Role::target}};
  }
  [[nodiscard]] std::int64_t count() const override { return of_->count(); }
  [[nodiscard]] const std::vector<samples::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string name(std::int64_t id) const override { return of_->name(id); }
  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    if (field == 0) return of_->read(0, ids, out);
    const std::size_t size = fields_[0].bytes();
    std::vector<std::uint8_t> pixels(ids.size() * size);
    std::vector<std::int64_t> labels(ids.size());
    of_->read(0, ids, reinterpret_cast<std::byte*>(pixels.data()));
    of_->read(1, ids, reinterpret_cast<std::byte*>(labels.data()));
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const std::int64_t value = pixels[i] > 0 ? labels[i / size] + 1 : 0;
      std::memcpy(out + i * sizeof value, &value, sizeof value);
    }
  }

 private:
  Part of_;
  std::vector<samples::Field> fields_;
};

std::string shape_text(const samples::Field& field) {
  return fmt::format("{} [{}]", field.name, fmt::join(field.shape, ", "));
}

void expect_same_fields(const Samples& train, const Samples& test, const std::string& place) {
  std::vector<std::string> a, b;
  for (const samples::Field& field : train.fields()) a.push_back(shape_text(field));
  for (const samples::Field& field : test.fields()) b.push_back(shape_text(field));
  if (a == b) return;
  throw UserError(place, fmt::format("has {}, the training data {}", fmt::join(b, ", "), fmt::join(a, ", ")),
                  "use files of the same dataset");
}

void expect_weights(const Experiment& experiment, const Samples& samples) {
  if (experiment.data.weight.empty()) return;
  for (std::int64_t id = 0; id < samples.count(); ++id) {
    const float weight = samples.weight(id);
    if (std::isfinite(weight) && weight >= 0) continue;
    throw UserError(samples.name(id), fmt::format("has the weight {}", weight), "weights are finite and 0 or more");
  }
}

void expect_samples(const Samples& samples, const char* part, const std::string& place) {
  if (samples.count() > 0) return;
  throw UserError(place, fmt::format("has no {} samples", part), "add some, or name other files");
}

// Files of their own may still share a group: then the test knows what was trained on.
std::string prove_apart(const Samples& train, const Samples& test) {
  std::map<std::string, std::int64_t> trained;  // group: its first sample
  for (std::int64_t id = 0; id < train.count(); ++id) trained.emplace(train.group(id), id);
  std::set<std::string> tested;
  for (std::int64_t id = 0; id < test.count(); ++id) {
    const std::string group = test.group(id);
    tested.insert(group);
    const auto found = trained.find(group);
    if (found == trained.end()) continue;
    throw UserError(test.name(id),
                    fmt::format("is of the group '{}', and so is {} of the training data", archive::printable(group),
                                train.name(found->second)),
                    "put each group into one file, or let isobit split all data: split.rule = \"random\"");
  }
  return fmt::format("{} samples of {} groups train, {} of {} test; no group in both", train.count(), trained.size(),
                     test.count(), tested.size());
}

}  // namespace

std::vector<samples::Source> data_sources(const Experiment& experiment) {
  std::vector<samples::Source> sources{source_of(experiment, true)};
  if (experiment.split.of_files()) sources.push_back(source_of(experiment, false));
  return sources;
}

std::vector<std::filesystem::path> data_paths(const Experiment& experiment) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder(experiment.data.path);
  for (const samples::Source& source : data_sources(experiment)) {
    for (const std::string& name : {source.file, source.labels, source.table}) {
      if (!name.empty()) paths.push_back(folder / name);
    }
  }
  return paths;
}

std::string recorded_data_path(const std::string& recorded, const std::string& given) {
  if (!given.empty()) return given;
  if (recorded.rfind("~/", 0) != 0 || std::filesystem::exists(recorded)) return recorded;
  const char* home = std::getenv("HOME");
  std::string here = std::string(home == nullptr ? "" : home) + recorded.substr(1);
  if (home == nullptr || !std::filesystem::exists(here)) {
    throw UserError(archive::printable(recorded),
                    "the data lay in the home of who recorded the run, and is not in yours",
                    "say where it is: --data DIR");
  }
  return here;
}

DataSets load_data(const Experiment& experiment) {
  const DataSettings& settings = experiment.data;
  const std::vector<samples::Source> sources = data_sources(experiment);
  std::vector<Part> parts;
  for (const samples::Source& source : sources) {
    Part part = samples::open_source(source);
    if (settings.target == "silhouette") part = std::make_shared<Silhouettes>(part);
    parts.push_back(std::move(part));
  }
  const auto place = [&](std::size_t i) { return (std::filesystem::path(settings.path) / sources[i].file).string(); };
  DataSets sets;
  if (parts.size() == 2) {
    expect_same_fields(*parts[0], *parts[1], place(1));
    sets.train = parts[0], sets.test = parts[1];
    if (!experiment.split.group.empty()) sets.split = prove_apart(*sets.train, *sets.test);
  } else {
    expect_samples(*parts[0], "", place(0));
    const samples::SplitSettings split{experiment.split.rule, experiment.split.folds, experiment.split.fold,
                                       !experiment.split.group.empty()};
    samples::Split made = samples::make_split(*parts[0], split, static_cast<std::uint64_t>(experiment.seed));
    sets.split = samples::split_text(made, split);
    sets.train = samples::subset(parts[0], std::move(made.train));
    sets.test = samples::subset(parts[0], std::move(made.test));
  }
  if (settings.train_limit > 0) sets.train = samples::first_of(sets.train, settings.train_limit);
  if (settings.test_limit > 0) sets.test = samples::first_of(sets.test, settings.test_limit);
  expect_samples(*sets.train, "training", place(0));
  expect_samples(*sets.test, "test", place(parts.size() - 1));
  const std::unique_ptr<Task> task = make_task(experiment);
  for (const Part& part : {sets.train, sets.test}) {
    expect_weights(experiment, *part);
    task->check(*part);
  }
  return sets;
}

}  // namespace isobit::train
