#include "samples/table_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "archive/printable.h"
#include "archive/user_error.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

using archive::UserError;

// Positions in CsvArrays.
constexpr std::size_t kInputs = 0, kTargets = 1, kWeight = 2;  // numbers
constexpr std::size_t kWholeTargets = 0, kCount = 1;           // wholes

// Which column is for what: each for one thing.
class Uses {
 public:
  explicit Uses(const CsvTable& table) : table_(table), cells_(table.columns().size()) {}

  void give(const std::string& name, CsvCell::Kind kind, std::size_t array, std::size_t slot) {
    CsvCell& cell = cells_[table_.column(name)];
    if (cell.kind != CsvCell::Kind::skipped)
      throw UserError(table_.path(), fmt::format("column '{}' is asked for twice", archive::printable(name)),
                      "a column is one of inputs, targets, group, weight and count");
    cell = {kind, array, slot};
  }
  [[nodiscard]] const std::vector<CsvCell>& cells() const { return cells_; }

 private:
  const CsvTable& table_;
  std::vector<CsvCell> cells_;
};

std::vector<std::string> default_targets(const CsvTable& table) {
  std::vector<std::string> found;
  for (const char* name : {"target", "label", "y"}) {
    if (std::find(table.columns().begin(), table.columns().end(), name) != table.columns().end())
      found.emplace_back(name);
  }
  if (found.size() == 1) return found;
  throw UserError(table.path(),
                  found.empty() ? fmt::format("has no column target, label or y; it has {}", listed(table.columns()))
                                : fmt::format("has several columns that may be the target: {}", listed(found)),
                  "name the targets in data.targets");
}

}  // namespace

TableRows::TableRows(CsvTable& table, const Source& source, TableKind kind) : whole_targets_(source.whole_targets) {
  using Kind = CsvCell::Kind;
  Uses uses(table);
  const auto targets = source.targets.empty() ? default_targets(table) : source.targets;
  targets_width_ = targets.size();
  for (std::size_t i = 0; i < targets.size(); ++i)
    uses.give(targets[i], whole_targets_ ? Kind::whole : Kind::number, whole_targets_ ? kWholeTargets : kTargets, i);
  if (kind == TableKind::images) {
    uses.give("file", Kind::text, 0, 0);
    arrays_.texts.emplace_back();
  }
  has_group_ = !source.group.empty();
  has_weight_ = !source.weight.empty();
  has_count_ = !source.count.empty();
  if (has_group_) {
    uses.give(source.group, Kind::text, arrays_.texts.size(), 0);
    arrays_.texts.emplace_back();
  }
  if (has_weight_) uses.give(source.weight, Kind::number, kWeight, 0);
  if (has_count_) uses.give(source.count, Kind::whole, kCount, 0);

  std::vector<std::string> inputs = source.inputs;
  if (kind == TableKind::samples && inputs.empty()) {
    for (std::size_t i = 0; i < table.columns().size(); ++i) {
      if (uses.cells()[i].kind == Kind::skipped) inputs.push_back(table.columns()[i]);
    }
    if (inputs.empty())
      throw UserError(table.path(), "has no column left for the inputs", "add columns, or name inputs in data.inputs");
  }
  if (kind == TableKind::images && !inputs.empty())
    throw UserError("data.inputs", "the input of a table of images is its column file", "leave it out");
  inputs_width_ = inputs.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) uses.give(inputs[i], Kind::number, kInputs, i);

  arrays_.number_widths = {inputs_width_, whole_targets_ ? 0 : targets_width_, has_weight_ ? std::size_t{1} : 0};
  arrays_.whole_widths = {whole_targets_ ? targets_width_ : 0, has_count_ ? std::size_t{1} : 0};
  count_ = table.read(uses.cells(), arrays_);
  lines_ = table.lines();
  const auto check = [&](bool sound, std::int64_t row, const std::string& name, const auto& value) {
    if (sound) return;
    throw UserError(table.place(line(row), table.column(name)), fmt::format("is {}", value), "it is 0 or more");
  };
  for (std::int64_t row = 0; row < count_ && (has_weight_ || has_count_); ++row) {
    check(weight(row) >= 0, row, source.weight, weight(row));
    check(!has_count_ || counted_targets(row) >= 0, row, source.count, counted_targets(row));
  }
}

Field TableRows::targets_field(const std::string& name) const {
  const auto width = static_cast<std::int64_t>(targets_width_);
  if (!whole_targets_) return {name, Element::float32, {width}, Role::target};
  return {name, Element::int64, width == 1 ? std::vector<std::int64_t>() : std::vector{width}, Role::target};
}

const std::byte* TableRows::inputs() const {
  return reinterpret_cast<const std::byte*>(arrays_.numbers[kInputs].data());
}

const std::byte* TableRows::targets() const {
  return whole_targets_ ? reinterpret_cast<const std::byte*>(arrays_.wholes[kWholeTargets].data())
                        : reinterpret_cast<const std::byte*>(arrays_.numbers[kTargets].data());
}

float TableRows::weight(std::int64_t row) const {
  return has_weight_ ? arrays_.numbers[kWeight].at(static_cast<std::size_t>(row)) : 1;
}

std::int64_t TableRows::counted_targets(std::int64_t row) const {
  return has_count_ ? arrays_.wholes[kCount].at(static_cast<std::size_t>(row)) : -1;
}

std::string TableRows::group(std::int64_t row) const {
  if (!has_group_) return {};
  const TextColumn& groups = arrays_.texts.back();
  return row < 0 || row >= count_ ? throw std::out_of_range("no such row") : groups[static_cast<std::size_t>(row)];
}

}  // namespace isobit::samples
