// IDX files (the MNIST family's format), plain or gzip.
//
//   bytes 0-1 zero, byte 2 element type (8: unsigned byte, the only one read), byte 3 number of dimensions,
//   then each dimension as a big-endian 32-bit integer, then the elements, row-major
//
// Errors are archive::UserError naming the file: missing, not IDX, truncated, too long, label out of range.
// Thread-safe; no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isobit::train {

struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [count, height, width]
};

[[nodiscard]] IdxImages read_idx_images(const std::string& path);
// Labels in [0, classes).
// Classes per pixel, in [0, classes).
[[nodiscard]] IdxImages read_idx_masks(const std::string& path, std::int64_t classes);
[[nodiscard]] std::vector<std::uint8_t> read_idx_labels(const std::string& path, std::int64_t classes);

}  // namespace isobit::train
