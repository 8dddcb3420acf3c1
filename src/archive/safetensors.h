// The public safetensors format: named tensors as raw bytes (https://github.com/huggingface/safetensors).
//
//   bytes 0-7   N, little-endian
//   N bytes     JSON object {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...,
//               "__metadata__": {"key": "text", ...}}, padded with spaces to a multiple of 8
//   the rest    the tensors' elements, row-major, little-endian, without holes
//
// The writer gives the same bytes for the same input. The reader trusts nothing: every length is checked
// against the file, shapes against overflow, tensors against overlap and holes. Errors are UserError naming
// the file. Thread-safe; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

// dtype as the format spells it: F32, F64, I64, I32, U8, BOOL, ...
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

using Metadata = std::map<std::string, std::string>;

// Bytes per element; 0 for a dtype that the format does not know.
[[nodiscard]] std::size_t dtype_size(std::string_view dtype);

// The file before its elements (length and JSON). Tensors are laid out in the order given; throws
// std::invalid_argument for doubled names or data that does not fit dtype and shape.
[[nodiscard]] std::string safetensors_header(std::span<const TensorView> tensors, const Metadata& metadata);

class Safetensors {
 public:
  // `place` names the source in errors.
  static Safetensors parse(std::vector<std::byte> bytes, const std::string& place);
  static Safetensors read(const std::filesystem::path& path);

  // Views into this object, in the order of their data; valid while it lives (also after a move).
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  // nullptr where there is none of that name.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }

 private:
  std::vector<std::byte> bytes_;
  std::vector<TensorView> tensors_;
  Metadata metadata_;
};

}  // namespace isobit::archive
