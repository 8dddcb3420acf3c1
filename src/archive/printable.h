// Text that came from a file, made safe to print: whoever wrote a record chooses its names, and a terminal obeys
// control characters. Thread-safe; no state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace isobit::archive {

// The same text in one line: control characters (C0, DEL, C1), line and paragraph separators, the marks that change the
// direction of writing, invisible marks, and bytes that are no UTF-8 appear as \n, \t, \xNN or \uNNNN.
[[nodiscard]] std::string printable(std::string_view text);

// The same for a text of several lines: its line ends and tabs stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

// "1 file", "2 files".
[[nodiscard]] std::string plural(std::size_t n, const char* what);

}  // namespace isobit::archive
