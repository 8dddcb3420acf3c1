// The table of an experiment file's keys: the one place where a key's type, unit, default, range and meaning
// stand. Constant; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/experiment.h"

namespace isobit::train {

// Where a key's value lives in an Experiment; the alternative is its type.
using Field = std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::int64_t>*,
                           std::vector<double>*, std::vector<std::string>*>;

struct Key {
  std::string_view name;  // "optimizer.lr"
  Field (*field)(Experiment&);
  std::string_view unit;             // "" where it has none
  std::string_view range;            // in words, as errors and documentation say it
  bool (*valid)(const Experiment&);  // of this key's value alone
  std::string_view meaning;
  bool (*used)(const Experiment&);  // false: means nothing for the chosen model, optimizer or schedule
};

[[nodiscard]] const std::vector<Key>& experiment_keys();

// The keys without which a file is no experiment: the data, the network, and how fast it learns. Their defaults fill in
// what old records and parts of an experiment leave out; a file must say them, because one that broke off in its
// download is often still TOML, and would train another network than its author's.
inline constexpr std::string_view kRequiredKeys[] = {"data.path", "model.name", "optimizer.lr"};

// "an integer", "a number", "true or false", ... as errors and documentation say it.
[[nodiscard]] std::string_view type_name(const Field& field);

// A value as TOML; numbers in the shortest form that reads back to the same bits.
[[nodiscard]] std::string toml_value(const Field& field);

// The table of keys in docs/experiment.md (Markdown).
[[nodiscard]] std::string keys_as_markdown();

}  // namespace isobit::train
