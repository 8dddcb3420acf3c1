// IDX files (the MNIST family's format), plain or gzip.
//
//   bytes 0-1 zero, byte 2 element type (8: unsigned byte, the only one read), byte 3 number of dimensions,
//   then each dimension as a big-endian 32-bit integer, then the elements, row-major
//
// A plain file is mapped into memory, a gzip file decompressed when it is opened. Errors are archive::UserError naming
// the file: missing, not IDX, truncated, too long, label out of range. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "samples/mapped_file.h"

namespace isobit::samples {

// Its sizes, and its elements where they are.
class IdxFile {
 public:
  // `content` is what the errors call the elements: "images".
  IdxFile(const std::string& path, int rank, const std::string& content);

  [[nodiscard]] const std::vector<std::int64_t>& dims() const { return dims_; }
  [[nodiscard]] const std::uint8_t* elements() const { return elements_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // Of a mapped file (mapped_file.h); a decompressed one cannot change.
  void check_unchanged() const;

 private:
  std::vector<std::int64_t> dims_;
  std::unique_ptr<MappedFile> mapped_;
  std::vector<std::uint8_t> inflated_;
  const std::uint8_t* elements_ = nullptr;
  std::size_t size_ = 0;
};

struct IdxImages {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<std::uint8_t> pixels;  // [count, height, width]
};

[[nodiscard]] IdxImages read_idx_images(const std::string& path);
// Classes per pixel, in [0, classes).
[[nodiscard]] IdxImages read_idx_masks(const std::string& path, std::int64_t classes);
// Labels in [0, classes).
[[nodiscard]] std::vector<std::uint8_t> read_idx_labels(const std::string& path, std::int64_t classes);

}  // namespace isobit::samples
