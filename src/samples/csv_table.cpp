#include "samples/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "archive/printable.h"
#include "archive/user_error.h"
#include "samples/csv_cells.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr const char* kCsvRemedy = "restore the file, or set data.path and data.train";
constexpr std::size_t kMostColumns = 1 << 20;

std::string shown(std::string_view cell) {
  return archive::printable(cell.substr(0, 40)) + (cell.size() > 40 ? "..." : "");
}

}  // namespace

void TextColumn::add(std::string_view text) {
  const auto known = numbers_.find(text);
  if (known != numbers_.end()) {
    of_row_.push_back(known->second);
    return;
  }
  const auto number = static_cast<std::uint32_t>(distinct_.size());
  distinct_.emplace_back(text);
  numbers_.emplace(distinct_.back(), number);
  of_row_.push_back(number);
}

std::size_t TextColumn::first_with(std::size_t row) const {
  return static_cast<std::size_t>(std::find(of_row_.begin(), of_row_.end(), of_row_[row]) - of_row_.begin());
}

// The lines after the header, one after the other.
class CsvTable::Rows {
 public:
  Rows(CsvTable& table, std::span<const CsvCell> cells, CsvArrays& arrays)
      : table_(table), cells_(cells), arrays_(arrays), line_(table.lines_.first) {
    const auto bytes = table.file_.bytes();
    at_ = reinterpret_cast<const char*>(bytes.data()) + table.body_;
    end_ = reinterpret_cast<const char*>(bytes.data()) + bytes.size();
  }

  std::int64_t read() {
    reserve();
    for (; at_ != end_; ++row_) read_row();
    if (row_ == 0) throw UserError(table_.path(), "has no line after its header", "add the samples");
    for (TextColumn& column : arrays_.texts) column.finish();
    return row_;
  }

 private:
  // At most as many rows as line ends, and as there is room for in the file.
  void reserve() {
    std::size_t most = 1;
    for (const char* at = at_; at != end_; ++most) {
      const void* const next = std::memchr(at, '\n', static_cast<std::size_t>(end_ - at));
      if (next == nullptr) break;
      at = static_cast<const char*>(next) + 1;
    }
    most = std::min(most, static_cast<std::size_t>(end_ - at_) / cells_.size() + 1);
    const auto room = [most](const std::vector<std::size_t>& widths, auto& arrays) {
      arrays.resize(widths.size());
      for (std::size_t i = 0; i < widths.size(); ++i) arrays[i].reserve(most * widths[i]);
    };
    room(arrays_.number_widths, arrays_.numbers);
    room(arrays_.whole_widths, arrays_.wholes);
  }

  void read_row() {
    if (*at_ == '\n' || (*at_ == '\r' && at_ + 1 != end_ && at_[1] == '\n'))
      throw UserError(fmt::format("{}, line {}", table_.path(), line_), "is empty", "take it out");
    for (std::size_t i = 0; i < arrays_.numbers.size(); ++i)
      arrays_.numbers[i].resize(arrays_.numbers[i].size() + arrays_.number_widths[i]);
    for (std::size_t i = 0; i < arrays_.wholes.size(); ++i)
      arrays_.wholes[i].resize(arrays_.wholes[i].size() + arrays_.whole_widths[i]);
    lines_ = 1;
    begin_ = at_;
    for (std::size_t column = 0; column < cells_.size(); ++column) {
      const CellEnd end = read_one(column);
      if ((end == CellEnd::comma) != (column + 1 < cells_.size())) broken_line();
    }
    line_ += lines_;
    if (lines_ > 1) table_.lines_.added.emplace_back(row_ + 1, line_ - table_.lines_.first - (row_ + 1));
  }

  CellEnd read_one(std::size_t column) {
    const CsvCell& cell = cells_[column];
    if (cell.kind == CsvCell::Kind::number) {
      const NumberRead number = read_number(at_, end_);
      if (number.after != at_ && ends_cell(number.after, end_) && std::isfinite(number.value)) {
        number_of(cell) = number.value;
        return step_over(number.after);
      }
    } else if (cell.kind == CsvCell::Kind::whole) {
      std::int64_t value = 0;
      const auto [after, code] = std::from_chars(at_, end_, value);
      if (code == std::errc() && ends_cell(after, end_)) {
        whole_of(cell) = value;
        return step_over(after);
      }
    }
    return read_slowly(cell, column);
  }

  // Quotes, texts, and everything that is refused.
  CellEnd read_slowly(const CsvCell& cell, std::size_t column) {
    const CellText text = read_cell(at_, end_, unquoted_);
    if (text.problem != nullptr)
      refuse(column, fmt::format("'{}' is no cell: {}", shown(text.text), text.problem),
             "quote the cell, and double its quotes");
    if (cell.kind != CsvCell::Kind::skipped && text.text.empty()) {
      if (text.end != CellEnd::comma && column + 1 < cells_.size()) broken_line();
      refuse(column, "the cell is empty", "fill it in, or leave the line out");
    }
    switch (cell.kind) {
      case CsvCell::Kind::skipped: break;
      case CsvCell::Kind::text: arrays_.texts[cell.array].add(text.text); break;
      case CsvCell::Kind::number: number_of(cell) = number(text.text, column); break;
      case CsvCell::Kind::whole: whole_of(cell) = whole(text.text, column); break;
    }
    lines_ += text.lines;
    at_ = text.next;
    return text.end;
  }

  float number(std::string_view text, std::size_t column) const {
    const char* const end = text.data() + text.size();
    const NumberRead read = read_number(text.data(), end);
    if (read.after != end)
      refuse(column, fmt::format("'{}' is no number", shown(text)), "write it as 12, -0.5 or 1e-3");
    if (std::isfinite(read.value)) return read.value;
    refuse(column, fmt::format("'{}' is not finite as a float32", shown(text)),
           "leave the line out, or write a finite number");
  }

  std::int64_t whole(std::string_view text, std::size_t column) const {
    std::int64_t value = 0;
    const auto [after, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code == std::errc() && after == text.data() + text.size()) return value;
    refuse(column, fmt::format("'{}' is no whole number", shown(text)),
           "classes and counts are whole numbers; number the classes from 0 on");
  }

  float& number_of(const CsvCell& cell) {
    return *(arrays_.numbers[cell.array].end() -
             static_cast<std::ptrdiff_t>(arrays_.number_widths[cell.array] - cell.slot));
  }
  std::int64_t& whole_of(const CsvCell& cell) {
    return *(arrays_.wholes[cell.array].end() -
             static_cast<std::ptrdiff_t>(arrays_.whole_widths[cell.array] - cell.slot));
  }

  CellEnd step_over(const char* after) {
    at_ = after;
    if (at_ == end_) return CellEnd::text;
    const CellEnd end = *at_ == ',' ? CellEnd::comma : CellEnd::line;
    at_ += *at_ == '\r' ? 2 : 1;
    return end;
  }

  [[noreturn]] void refuse(std::size_t column, const std::string& problem, const std::string& remedy) const {
    throw UserError(table_.place(line_ + lines_ - 1, column), problem, remedy);
  }

  [[noreturn]] void broken_line() {
    std::size_t count = 0;
    CellText cell;
    at_ = begin_;
    do {
      cell = read_cell(at_, end_, unquoted_);
      at_ = cell.next;
      ++count;
    } while (cell.end == CellEnd::comma && cell.problem == nullptr);
    throw UserError(fmt::format("{}, line {}, column {}", table_.path(), line_, std::min(count, cells_.size()) + 1),
                    fmt::format("has {} cells, the header has {}", count, cells_.size()),
                    "every line has the header's number of cells; a comma within a cell needs quotes");
  }

  CsvTable& table_;
  std::span<const CsvCell> cells_;
  CsvArrays& arrays_;
  const char* at_ = nullptr;
  const char* begin_ = nullptr;  // of the row
  const char* end_ = nullptr;
  std::int64_t line_, lines_ = 1, row_ = 0;
  std::string unquoted_;
};

CsvTable::CsvTable(const std::string& path) : file_(path, kCsvRemedy) {
  file_.expect_sequential();
  const auto bytes = file_.bytes();
  const char* const begin = reinterpret_cast<const char*>(bytes.data());
  const char* const end = begin + bytes.size();
  const std::string_view text(begin, bytes.size());
  const char* at = text.starts_with("\xef\xbb\xbf") ? begin + 3 : begin;
  if (at == end) throw UserError(path, "is empty", "a table begins with a line of column names");
  std::string unquoted;
  for (CellText cell; cell.next == nullptr || cell.end == CellEnd::comma;) {
    cell = read_cell(at, end, unquoted);
    const std::string name(cell.text);
    const std::string where = fmt::format("{}, line {}, column {}", path, 1, columns_.size() + 1);
    if (cell.problem != nullptr)
      throw UserError(where, fmt::format("'{}' is no cell: {}", shown(name), cell.problem), kCsvRemedy);
    if (name.empty()) throw UserError(where, "the column has no name", "name every column (pandas: index=False)");
    if (columns_.size() == kMostColumns)
      throw UserError(where, fmt::format("has more than {} columns", kMostColumns), kCsvRemedy);
    columns_.push_back(name);
    lines_.first += cell.lines;
    at = cell.next;
  }
  body_ = static_cast<std::size_t>(at - begin);
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto [first, fresh] = seen.emplace(columns_[i], i);
    if (!fresh)
      throw UserError(place(1, i), fmt::format("column {} has the same name", first->second + 1), "rename one of them");
  }
}

std::size_t CsvTable::column(const std::string& name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
  const bool other = columns_.size() == 1 && columns_[0].find_first_of(";\t") != std::string::npos;
  throw UserError(path(), fmt::format("has no column '{}'", archive::printable(name)),
                  other ? "separate the cells by commas" : name_remedy(name, columns_, "columns"));
}

std::int64_t CsvTable::read(std::span<const CsvCell> cells, CsvArrays& arrays) {
  if (cells.size() != columns_.size()) throw std::invalid_argument("a table is read by one entry per column");
  const std::int64_t rows = Rows(*this, cells, arrays).read();
  file_.check_unchanged();
  return rows;
}

std::int64_t CsvLines::of(std::int64_t row) const {
  const auto after = std::upper_bound(added.begin(), added.end(), row,
                                      [](std::int64_t value, const auto& entry) { return value < entry.first; });
  return first + row + (after == added.begin() ? 0 : std::prev(after)->second);
}

std::string CsvTable::place(std::int64_t line, std::size_t column) const {
  return fmt::format("{}, line {}, column {} ({})", path(), line, column + 1, shown(columns_[column]));
}

}  // namespace isobit::samples
