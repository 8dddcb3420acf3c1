// A CSV file (RFC 4180) with a header: numbers read straight into arrays, each rounded once to what it is read as.
//
// Cells are separated by commas, lines end with LF or CRLF; a cell in double quotes may hold commas, line ends and
// doubled quotes; a byte order mark at the beginning is passed over. Every line has the header's number of cells.
// Errors are archive::UserError naming file, line and column, both from 1. Memory: what is read, nothing of the text.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "samples/mapped_file.h"

namespace isobit::samples {

// A column of texts, each text kept once.
class TextColumn {
 public:
  void add(std::string_view text);
  // That no more come.
  void finish() { numbers_.clear(); }
  [[nodiscard]] const std::string& operator[](std::size_t row) const { return distinct_[of_row_[row]]; }
  [[nodiscard]] std::size_t size() const { return of_row_.size(); }
  // Rows with the same text have the same number; the first text is 0, the next other one 1.
  [[nodiscard]] std::size_t number(std::size_t row) const { return of_row_[row]; }
  // The row that first has the text of this one.
  [[nodiscard]] std::size_t first_with(std::size_t row) const;

 private:
  std::deque<std::string> distinct_;  // stays where it is: the keys are views of it
  std::vector<std::uint32_t> of_row_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

// What is to be read of a column, and where to: the array's number, and the slot in its row.
struct CsvCell {
  enum class Kind { skipped, number, whole, text };
  Kind kind = Kind::skipped;
  std::size_t array = 0, slot = 0;
};

// Arrays of rows: numbers[array][row * width + slot]; texts have one column each.
struct CsvArrays {
  std::vector<std::size_t> number_widths, whole_widths;
  std::vector<std::vector<float>> numbers;
  std::vector<std::vector<std::int64_t>> wholes;
  std::vector<TextColumn> texts;
};

// Which lines the rows stand on, from 1; a row takes several where its quotes hold line ends.
struct CsvLines {
  std::int64_t first = 2;
  std::vector<std::pair<std::int64_t, std::int64_t>> added;  // from this row on, so many more
  [[nodiscard]] std::int64_t of(std::int64_t row) const;
};

class CsvTable {
 public:
  // Reads the header.
  explicit CsvTable(const std::string& path);

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  // UserError with the nearest name where there is no such column.
  [[nodiscard]] std::size_t column(const std::string& name) const;

  // One entry of `cells` per column; the widths and the number of texts are set in `arrays`. Rows, one at least.
  std::int64_t read(std::span<const CsvCell> cells, CsvArrays& arrays);

  // Of the rows that were read.
  [[nodiscard]] const CsvLines& lines() const { return lines_; }
  [[nodiscard]] const std::string& path() const { return file_.path(); }
  // "train.csv, line 18, column 3 (age)"
  [[nodiscard]] std::string place(std::int64_t line, std::size_t column) const;

 private:
  class Rows;

  MappedFile file_;
  std::vector<std::string> columns_;
  std::size_t body_ = 0;  // where the lines after the header begin
  CsvLines lines_;
};

}  // namespace isobit::samples
