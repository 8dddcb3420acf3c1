// The header of a .npy file (versions 1.0, 2.0 and 3.0), read strictly.
//
//   bytes 0-5 "\x93NUMPY", 6-7 version, then the length of what follows (2 bytes in 1.0, else 4; little-endian), then a
//   Python dictionary with the keys descr, fortran_order and shape, blanks, a line end; then the elements, row-major
//
// Taken: numbers of 8 to 64 bits, bool, texts (U, S), little-endian, in C order. Errors are archive::UserError.
// No state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace isobit::samples {

struct NpyHeader {
  char kind = 0;          // b, i, u, f: numbers; U, S: texts; as in descr
  std::size_t width = 0;  // bytes of an element; of U four per character
  std::string descr;      // "<f4"
  std::vector<std::int64_t> shape;
  std::uint64_t data_at = 0;  // where the elements begin

  [[nodiscard]] std::uint64_t elements() const;
  // Of all elements; no overflow: the parser limits it.
  [[nodiscard]] std::uint64_t bytes() const { return elements() * width; }
  // "<f4 [100, 3]"
  [[nodiscard]] std::string text() const;
};

// A header is no longer than this; `bytes` needs no more of the file.
inline constexpr std::size_t kMostNpyHeader = 12 + 65535;

// `place` is what the errors name: a file, or a file and the member in it.
[[nodiscard]] NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& place);

}  // namespace isobit::samples
