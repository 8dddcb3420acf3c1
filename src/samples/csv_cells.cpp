#include "samples/csv_cells.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace isobit::samples {
namespace {

CellText quoted_cell(const char* at, const char* end, std::string& unquoted) {
  CellText cell;
  const char* begin = ++at;
  bool doubled = false;
  unquoted.clear();
  for (;; ++at) {
    if (at == end) {
      cell.problem = "its quote is not closed";
      cell.next = at;
      return cell;
    }
    if (*at == '\n') ++cell.lines;
    if (*at != '"') continue;
    if (at + 1 == end || at[1] != '"') break;
    doubled = true;  // up to the first of the two, which stands for itself
    unquoted.append(begin, ++at);
    begin = at + 1;
  }
  if (doubled) {
    unquoted.append(begin, at);
    cell.text = unquoted;
  } else {
    cell.text = {begin, static_cast<std::size_t>(at - begin)};
  }
  cell.next = at + 1;
  if (!ends_cell(cell.next, end)) cell.problem = "text stands behind its closing quote";
  return cell;
}

CellText plain_cell(const char* at, const char* end) {
  CellText cell;
  const char* const begin = at;
  for (; !ends_cell(at, end); ++at) {
    if (*at == '"') cell.problem = "a quote stands in a cell that does not begin with one";
    if (*at == '\r') cell.problem = "a carriage return stands in it that belongs to no line end";
  }
  cell.text = {begin, static_cast<std::size_t>(at - begin)};
  cell.next = at;
  return cell;
}

// Whether the magnitude is below 1, of a number that is spelt soundly and is not 0.
bool below_one(const char* at, const char* after) {
  std::int64_t digits = 0, first = 0, power = 0;  // digits before the point, or before the first that is not 0
  bool point = false, found = false;
  for (; at != after && *at != 'e' && *at != 'E'; ++at) {
    if (*at == '.') point = true;
    if (*at < '0' || *at > '9') continue;
    if (!found && *at == '0') {
      first -= point ? 1 : 0;
      continue;
    }
    found = true;
    digits += point ? 0 : 1;
  }
  if (at != after) {
    ++at;
    if (at != after && *at == '+') ++at;
    const bool negative = at != after && *at == '-';
    constexpr std::int64_t kFar = std::int64_t{1} << 62;  // no cell has so many digits
    if (std::from_chars(at, after, power).ec == std::errc::result_out_of_range) power = negative ? -kFar : kFar;
    power = std::clamp(power, -kFar, kFar);
  }
  return (digits > 0 ? digits : first) + power <= 0;
}

}  // namespace

CellText read_cell(const char* at, const char* end, std::string& unquoted) {
  CellText cell = at != end && *at == '"' ? quoted_cell(at, end, unquoted) : plain_cell(at, end);
  if (cell.problem != nullptr || cell.next == end) return cell;
  cell.end = *cell.next == ',' ? CellEnd::comma : CellEnd::line;
  cell.next += *cell.next == '\r' ? 2 : 1;
  return cell;
}

NumberRead read_number(const char* at, const char* end) {
  NumberRead number;
  const auto [after, code] = std::from_chars(at, end, number.value);
  number.after = after;
  if (code == std::errc::invalid_argument) number.after = at;
  if (code == std::errc::result_out_of_range) {
    number.value = below_one(at, after) ? 0.0f : std::numeric_limits<float>::infinity();
    if (*at == '-') number.value = -number.value;
  }
  return number;
}

}  // namespace isobit::samples
