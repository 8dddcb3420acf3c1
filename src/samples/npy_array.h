// One array of a .npy file or of a member of a .npz file: values by sample, the first dimension.
//
// A .npy file and a member that is stored stay in the file, mapped into memory; a deflated member is decompressed.
// Immutable; thread-safe. Errors are archive::UserError.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "samples/mapped_file.h"
#include "samples/npy_header.h"
#include "samples/samples.h"

namespace isobit::samples {

class NpyArray {
 public:
  // `file` holds `data`, header included; or `owned` does. `place` is what errors name.
  NpyArray(std::shared_ptr<const MappedFile> file, std::span<const std::byte> data, std::vector<std::byte> owned,
           std::string place);

  [[nodiscard]] const NpyHeader& header() const { return header_; }
  [[nodiscard]] const std::string& place() const { return place_; }
  [[nodiscard]] std::int64_t count() const { return header_.shape[0]; }
  [[nodiscard]] bool is_text() const { return header_.kind == 'U' || header_.kind == 'S'; }
  // What a field of it has: as an input bytes and truth values are uint8; other whole numbers, and all of them as a
  // target, int64; floating-point numbers float32.
  [[nodiscard]] Element element(Role role) const;

  // `n` elements from the element `first` on; UserError for a finite number beyond float32.
  void read(std::uint64_t first, std::uint64_t n, Element as, std::byte* out) const;
  // A text, or a whole number in decimal.
  [[nodiscard]] std::string text(std::int64_t index) const;
  void check_unchanged() const;

 private:
  std::shared_ptr<const MappedFile> file_;
  std::vector<std::byte> owned_;
  NpyHeader header_;
  const std::byte* elements_ = nullptr;
  std::string place_;
};

}  // namespace isobit::samples
