// What a table's columns are for: inputs, targets, group, weight, count, and the files of images; read by csv_table.h.
//
// Errors are archive::UserError naming the table, and line and column where they have some. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "samples/csv_table.h"
#include "samples/samples.h"
#include "samples/source.h"

namespace isobit::samples {

enum class TableKind {
  samples,  // inputs: those named, or all columns that are nothing else
  images,   // the column "file" names an image; no inputs
};

class TableRows {
 public:
  TableRows() = default;
  // Targets: those named, or the one column called target, label or y. Reads all rows.
  TableRows(CsvTable& table, const Source& source, TableKind kind);

  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t line(std::int64_t row) const { return lines_.of(row); }
  [[nodiscard]] std::size_t inputs_width() const { return inputs_width_; }
  [[nodiscard]] Field targets_field(const std::string& name) const;

  // Row-major: float32 [count, inputs_width], and the target field's element [count, targets].
  [[nodiscard]] const std::byte* inputs() const;
  [[nodiscard]] const std::byte* targets() const;
  [[nodiscard]] float weight(std::int64_t row) const;
  [[nodiscard]] std::int64_t counted_targets(std::int64_t row) const;
  [[nodiscard]] std::string group(std::int64_t row) const;
  [[nodiscard]] const TextColumn& files() const { return arrays_.texts.at(0); }

 private:
  CsvLines lines_;
  std::int64_t count_ = 0;
  CsvArrays arrays_;
  bool whole_targets_ = true, has_weight_ = false, has_count_ = false, has_group_ = false;
  std::size_t inputs_width_ = 0, targets_width_ = 0;
};

}  // namespace isobit::samples
