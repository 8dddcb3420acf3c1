// Cells of a CSV text one after the other, and numbers in them; for csv_table.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isobit::samples {

// What ended a cell.
enum class CellEnd { comma, line, text };

struct CellText {
  std::string_view text;  // without its quotes; of `unquoted` where it has doubled quotes
  CellEnd end = CellEnd::text;
  const char* next = nullptr;     // where the next cell begins
  std::int64_t lines = 0;         // line ends within the cell
  const char* problem = nullptr;  // why it cannot be read; else nullptr
};

// The cell that begins at `at`.
[[nodiscard]] CellText read_cell(const char* at, const char* end, std::string& unquoted);

// The first cell's end where `at` is a comma, a line end, or the end of the text.
[[nodiscard]] inline bool ends_cell(const char* at, const char* end) {
  return at == end || *at == ',' || *at == '\n' || (*at == '\r' && at + 1 < end && at[1] == '\n');
}

// The number that the characters up to `after` spell, rounded once; `after` is `at` where there is none. Numbers too
// small for float32 are 0 or subnormal, those too large infinite.
struct NumberRead {
  float value = 0;
  const char* after = nullptr;
};
[[nodiscard]] NumberRead read_number(const char* at, const char* end);

}  // namespace isobit::samples
