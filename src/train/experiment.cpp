#include "train/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <fstream>
#include <map>

#include "archive/sha256.h"
#include "archive/suggest.h"
#include "archive/toml.h"
#include "archive/toml_names.h"
#include "archive/user_error.h"
#include "component/component.h"
#include "train/experiment_schema.h"

namespace isobit::train {
namespace {

using archive::UserError;

std::string at(const std::string& origin, const toml::source_region& source) {
  if (source.begin.line == 0) return origin;
  return fmt::format("{}:{}:{}", origin, source.begin.line, source.begin.column);
}

const Key* find_key(std::string_view name) {
  for (const Key& key : experiment_keys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

bool is_section(std::string_view name) {
  return std::any_of(experiment_keys().begin(), experiment_keys().end(), [&](const Key& key) {
    return key.name.size() > name.size() && key.name.substr(0, name.size()) == name && key.name[name.size()] == '.';
  });
}

// Names that could stand where `name` stands: keys and sections of the same section.
std::vector<std::string> neighbours(std::string_view name) {
  const auto dot = name.rfind('.');
  const std::string prefix(dot == std::string_view::npos ? "" : name.substr(0, dot + 1));
  std::vector<std::string> names;
  for (const Key& key : experiment_keys()) {
    if (key.name.substr(0, prefix.size()) != prefix) continue;
    const auto end = key.name.find('.', prefix.size());
    std::string candidate(key.name.substr(0, end));
    if (names.empty() || names.back() != candidate) names.push_back(std::move(candidate));
  }
  return names;
}

[[noreturn]] void fail_unknown(const std::string& place, std::string_view name) {
  std::vector<std::string> candidates = neighbours(name);
  std::string best = archive::nearest(std::string(name), candidates);
  if (best.empty()) {  // perhaps the section is misspelt
    std::vector<std::string> all;
    for (const Key& key : experiment_keys()) all.emplace_back(key.name);
    best = archive::nearest(std::string(name), all);
  }
  if (best.empty()) {  // perhaps a key of another section
    for (const Key& key : experiment_keys()) {
      const auto dot = key.name.rfind('.');
      if (dot != std::string_view::npos && key.name.substr(dot + 1) == name) best = key.name;
    }
  }
  std::string remedy = fmt::format("did you mean '{}'?", best);
  if (best.empty()) {
    std::string siblings;
    for (const std::string& key : candidates) siblings += (siblings.empty() ? "" : ", ") + key;
    remedy = siblings.empty() ? "see docs/experiment.md for all keys"
                              : fmt::format("known keys: {}; see docs/experiment.md", siblings);
  }
  throw UserError(place, fmt::format("unknown key '{}'", name), remedy);
}

template <class Value>
bool read_value(const toml::node& node, Value& out) {
  if constexpr (std::is_same_v<Value, double>) {
    if (!node.is_integer() && !node.is_floating_point()) return false;
    const auto value = node.value<double>();  // none of an integer that binary64 does not hold
    if (value) out = *value;
    return value.has_value();
  } else {
    const auto value = node.value_exact<Value>();
    if (value) out = *value;
    return value.has_value();
  }
}

template <class Value>
bool read_value(const toml::node& node, std::vector<Value>& out) {
  if (!node.is_array()) return false;
  std::vector<Value> values;
  for (const toml::node& element : *node.as_array()) {
    Value value{};
    if (!read_value(element, value)) return false;
    values.push_back(value);
  }
  out = std::move(values);
  return true;
}

constexpr std::size_t kLargest = 1 << 20;

toml::table parse_toml(std::string_view text, const std::string& origin) {
  if (text.size() > kLargest)
    throw UserError(origin, fmt::format("has more than {} bytes", kLargest), "shorten the file");
  if (const std::int64_t line = archive::line_of_long_name(text); line > 0)
    throw UserError(fmt::format("{}:{}", origin, line),
                    fmt::format("has a name of more than {} parts", archive::kMostNameParts), "correct the line");
  return toml::parse(text, origin);
}

// Places of the keys that were given, for errors that come later.
using Places = std::map<std::string, std::string, std::less<>>;

void set_key(Experiment& experiment, const Key& key, const toml::node& node, const std::string& place, Places& places) {
  const Field field = key.field(experiment);
  if (!std::visit([&](auto* target) { return read_value(node, *target); }, field)) {
    if (node.is_integer() && std::holds_alternative<double*>(field)) {
      throw UserError(place, fmt::format("'{}' is an integer that no binary64 number equals", key.name),
                      fmt::format("write it with a decimal point to have it rounded; allowed: {}", key.range));
    }
    throw UserError(place, fmt::format("'{}' must be {}", key.name, type_name(field)),
                    fmt::format("allowed: {}", key.range));
  }
  if (!key.valid(experiment)) {
    if (key.name == "data.format")
      component::require_built(component::Brings::data_format, experiment.data.format, place);
    throw UserError(place, fmt::format("'{}' is {}", key.name, toml_value(field)),
                    fmt::format("allowed: {}", key.range));
  }
  places[std::string(key.name)] = place;
}

void read_table(Experiment& experiment, const toml::table& table, const std::string& prefix, const std::string& origin,
                Places& places) {
  for (const auto& [word, node] : table) {
    const std::string name = prefix + std::string(word.str());
    const std::string place = at(origin, word.source());
    if (const Key* key = find_key(name)) {
      set_key(experiment, *key, node, place, places);
    } else if (!is_section(name)) {
      fail_unknown(place, name);
    } else if (!node.is_table()) {
      throw UserError(place, fmt::format("'{}' is a section, not a value", name), fmt::format("write [{}]", name));
    } else {
      read_table(experiment, *node.as_table(), name + ".", origin, places);
    }
  }
}

// "a.b=value": the value as TOML, or else as a bare string (so that model.name=lenet5 needs no quotes).
void apply_override(Experiment& experiment, const std::string& text, Places& places) {
  const std::string place = "--set " + text;
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UserError(place, "not in the form key=value", "for example --set optimizer.lr=0.1");
  }
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  const Key* key = find_key(name);
  if (key == nullptr) {
    if (is_section(name)) throw UserError(place, fmt::format("'{}' is a section", name), "set one of its keys");
    fail_unknown(place, name);
  }
  toml::table table;
  try {
    table = parse_toml("value = " + value, place);
  } catch (const toml::parse_error&) {
    table.insert("value", value);
  }
  if (table.size() != 1) throw UserError(place, "more than one value", "give one --set per key");
  set_key(experiment, *key, *table.get("value"), place, places);
}

using Fail = std::function<void(std::string_view key, const std::string& what, const std::string& remedy)>;

void check_data(const Experiment& e, const Fail& fail) {
  if (!e.split.of_files() && e.split.fold >= e.split.folds) {
    fail("split.fold", fmt::format("'split.fold' is {}, but there are {} folds", e.split.fold, e.split.folds),
         fmt::format("choose 0 to {}", e.split.folds - 1));
  }
  if (e.data.target == "silhouette" && e.data.format != "idx") {
    fail("data.target", fmt::format("silhouettes are made of idx files, not of {}", e.data.format),
         "choose another data.target, or data.format = \"idx\"");
  }
  if ((e.data.format == "text") != (e.data.target == "next")) {
    fail("data.target", fmt::format("data.format = \"{}\" has no target \"{}\"", e.data.format, e.data.target),
         e.data.format == "text" ? "set data.target = \"next\"" : "choose data.format = \"text\", or another target");
  }
}

// Which losses learn what.
void check_task(const Experiment& e, const Fail& fail) {
  const std::string &target = e.data.target, &loss = e.loss.name;
  const bool values = target == "value", labels = target == "labels";
  const bool fits = values   ? loss == "mse" || loss == "l1" || loss == "huber"
                    : labels ? loss == "binary_cross_entropy"
                             : loss == "cross_entropy" || (loss == "dice" && e.data.per_pixel());
  if (!fits) {
    fail("loss.name", fmt::format("the loss {} does not fit data.target = \"{}\"", loss, target),
         values   ? "set loss.name = \"mse\", \"l1\" or \"huber\""
         : labels ? "set loss.name = \"binary_cross_entropy\""
                  : "set loss.name = \"cross_entropy\"");
  }
  if (loss == "dice" && e.grain_size() != e.batch) {
    fail("grain", "the loss dice couples the samples of a step, so a step cannot be computed in several grains",
         "remove the key, or set loss.name = \"cross_entropy\"");
  }
  if (!values && !labels && e.model.classes < 2)
    fail("model.classes", "'model.classes' is 1, but there are at least two classes", "set it to 2 or more");
  if (e.model.name == "unet" && !e.data.per_pixel()) {
    fail("model.name", "unet gives a class per pixel, but data.target has one per image",
         "set data.target to \"mask\" or \"silhouette\"");
  }
  if (e.data.per_pixel() && e.model.name != "unet" && e.model.name != "torchscript") {
    fail("data.target",
         fmt::format("{} gives a class per image, but data.target = \"{}\" has one per pixel", e.model.name, target),
         "choose model.name = \"unet\", or data.target = \"class\"");
  }
  const bool positions = target == "next" || target == "sequence";
  if (positions != (e.model.name == "gpt2") && e.model.name != "torchscript") {
    fail("model.name",
         positions ? fmt::format("{} gives no class per position, as data.target = \"{}\" needs", e.model.name, target)
                   : fmt::format("gpt2 gives a class per position, but data.target is \"{}\"", target),
         positions ? "choose model.name = \"gpt2\" or \"torchscript\"" : "set data.target to \"next\" or \"sequence\"");
  }
  if (e.data.format == "text" && e.model.classes != 256)
    fail("model.classes", fmt::format("'model.classes' is {}, but bytes are 256", e.model.classes), "set it to 256");
}

// "'model.patch' does not apply to model 'mlp'"
std::string ignored_text(const Experiment& e, std::string_view key, const std::string& section) {
  const std::string& choice = section == "model"       ? e.model.name
                              : section == "optimizer" ? e.optimizer.name
                              : section == "data"      ? e.data.format
                              : section == "split"     ? e.split.rule
                              : section == "loss"      ? e.loss.name
                              : section == "augment"   ? e.name
                                                       : e.schedule.name;
  if (section == "augment") return fmt::format("'{}' does not apply without a crop and a flip", key);
  return fmt::format("'{}' does not apply to {} '{}'", key, section, choice);
}

// What stock PyTorch cannot do, and what a record cannot hold.
void check_arithmetic(const Experiment& e, const Fail& fail) {
  if (e.arithmetic.is_stock() && e.grain_size() != e.batch) {
    fail("grain", "a step of several grains is summed exactly, which stock PyTorch (arithmetic.kind) cannot do",
         "remove the key, or set arithmetic.kind = \"isobit\"");
  }
  if (e.arithmetic.is_stock() && e.arithmetic.products != "ordered") {
    fail("arithmetic.products", "stock PyTorch (arithmetic.kind) has products of its own",
         "remove the key, or set arithmetic.kind = \"isobit\"");
  }
  if (e.evaluate.predictions && e.data.target != "class") {
    fail("evaluate.predictions",
         fmt::format("data.target = \"{}\" has no class per sample that could be kept", e.data.target),
         "remove the key, or learn data.target = \"class\"");
  }
}

// What no single key can tell.
void check_together(const Experiment& e, const std::string& origin, const Places& places) {
  const auto fail = [&](std::string_view key, const std::string& what, const std::string& remedy) {
    const auto found = places.find(key);
    throw UserError(found == places.end() ? origin : found->second, what, remedy);
  };
  if (e.grain > e.batch) {
    fail("grain", fmt::format("'grain' is {}, above 'batch' ({})", e.grain, e.batch),
         "set it to the batch at most; 0 means the batch");
  }
  if ((e.batch + e.grain_size() - 1) / e.grain_size() > 1 << 17) {
    fail("grain", "a step has more than 131072 grains", "choose larger grains");
  }
  if (e.model.name == "torchscript" && e.model.torchscript.empty()) {
    fail("model.name", "'model.torchscript' is missing", "name the network's file: model.torchscript = \"net.pt\"");
  }
  check_arithmetic(e, fail);
  check_data(e, fail);
  check_task(e, fail);
  const OptimizerSettings& o = e.optimizer;
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0)) {
    fail("optimizer.nesterov", "Nesterov momentum needs momentum above 0 and no dampening",
         "set optimizer.momentum, and optimizer.dampening = 0");
  }
  // A value that would be ignored is an error, unless it is the default.
  Experiment given = e, defaults;
  for (const Key& key : experiment_keys()) {
    if (key.used(e) || toml_value(key.field(given)) == toml_value(key.field(defaults))) continue;
    const std::string section(key.name.substr(0, key.name.find('.')));
    fail(key.name, ignored_text(e, key.name, section), "remove the key, or choose another name");
  }
}

// A file that leaves out what an experiment must say was cut short, or never written.
void check_complete(const std::string& origin, const Places& places) {
  std::vector<std::string> missing;
  for (const std::string_view key : kRequiredKeys) {
    if (!places.contains(key)) missing.push_back(fmt::format("'{}'", key));
  }
  if (missing.empty()) return;
  std::string names = missing.back();
  for (std::size_t i = missing.size() - 1; i-- > 0;)
    names.insert(0, missing[i] + (i + 2 == missing.size() ? " and " : ", "));
  throw UserError(
      origin,
      places.empty() ? fmt::format("the experiment says nothing: {} are missing", names)
                     : fmt::format("the experiment does not say {}", names),
      fmt::format("{}, or give them with --set; perhaps the file was not copied to its end: compare it with "
                  "its source (docs/experiment.md)",
                  places.empty() ? "write them" : "add what is missing"));
}

// `places`: where the text gives each key.
Experiment parse(const std::string& text, const std::string& origin, const std::vector<std::string>& overrides,
                 Places& places) {
  toml::table table;
  try {
    table = parse_toml(text, origin);
  } catch (const toml::parse_error& error) {
    throw UserError(at(origin, error.source()), fmt::format("not TOML: {}", error.description()), "correct the line");
  }
  Experiment experiment;
  read_table(experiment, table, "", origin, places);
  for (const std::string& text_of_override : overrides) apply_override(experiment, text_of_override, places);
  check_together(experiment, origin, places);
  return experiment;
}

}  // namespace

Experiment parse_experiment(const std::string& text, const std::string& origin,
                            const std::vector<std::string>& overrides) {
  Places places;
  return parse(text, origin, overrides, places);
}

Experiment recorded_experiment(const std::string& text, const std::string& origin) {
  Places places;
  Experiment experiment = parse(text, origin, {}, places);
  if (!places.contains("checkpoint.segments")) experiment.checkpoint.segments = 1;
  return experiment;
}

Experiment load_experiment(const std::string& path, const std::vector<std::string>& overrides) {
  std::error_code none;  // such a path names nothing
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 14> piece;
  while (file && text.size() <= kLargest) {
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file && !file.eof()) {
    const bool run = path == "last" || std::filesystem::is_directory(path, none);
    throw UserError(path, "the experiment file cannot be read",
                    run ? "to resume a run: isobit run --resume " + path
                        : "name an existing TOML file, for example examples/fashion-mlp.toml");
  }
  Places places;
  Experiment experiment = parse(text, path, overrides, places);
  check_complete(path, places);
  const std::string& network = experiment.model.torchscript;
  if (experiment.model.sha256.empty() && std::filesystem::is_regular_file(network, none))
    experiment.model.sha256 = archive::digest_file(network).sha256;
  return experiment;
}

// Keys that mean nothing for the chosen model, optimizer or schedule are left out, as they are refused when read.
std::string to_toml(const Experiment& experiment) {
  Experiment copy = experiment;
  std::string out, section;
  for (const Key& key : experiment_keys()) {
    const std::string name(key.name);
    if (!key.used(experiment)) continue;
    const auto dot = name.find('.');
    if (dot != std::string::npos && name.substr(0, dot) != section) {
      section = name.substr(0, dot);
      out += fmt::format("\n[{}]\n", section);
    }
    out +=
        fmt::format("{} = {}\n", dot == std::string::npos ? name : name.substr(dot + 1), toml_value(key.field(copy)));
  }
  return out;
}

}  // namespace isobit::train
