#include "archive/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

using Json = nlohmann::json;  // with quick look-ups: a model may have many names

// The format's own limit.
constexpr std::uint64_t kHeaderLimit = 100'000'000;
constexpr std::size_t kLengthBytes = 8;

struct Dtype {
  std::string_view name;
  std::size_t size;
};
constexpr Dtype kDtypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                             {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
                             {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};

// Bytes of a tensor; nothing where shape or product are out of range.
std::optional<std::uint64_t> byte_count(std::string_view dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t count = dtype_size(dtype);
  if (count == 0) return std::nullopt;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(extent), &count)) return std::nullopt;
  }
  return count;
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  void run(std::vector<TensorView>& tensors, Metadata& metadata) {
    const Json header = parse_header();
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(value, metadata);
      } else {
        tensors.push_back(read_tensor(name, value));
      }
    }
    require_no_holes(tensors);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    throw UserError(place_, "not a valid safetensors file: " + what, "restore the file from a copy");
  }

  Json parse_header() {
    if (bytes_.size() < kLengthBytes)
      damaged(fmt::format("it has {} bytes, the header's length alone takes 8", bytes_.size()));
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<std::uint64_t>(bytes_[i]) << 8 * i;
    if (length > kHeaderLimit) damaged(fmt::format("its header claims {} bytes", length));
    if (length > bytes_.size() - kLengthBytes) damaged("the header extends beyond the file");
    const char* text = reinterpret_cast<const char*>(bytes_.data()) + kLengthBytes;
    data_ = bytes_.subspan(kLengthBytes + static_cast<std::size_t>(length));
    if (length == 0 || text[0] != '{') damaged("the header does not begin with '{'");
    Json header;
    try {
      header = parse_json<Json>({text, static_cast<std::size_t>(length)});
    } catch (const std::invalid_argument& error) {
      damaged(fmt::format("the header {}", error.what()));
    } catch (const std::exception&) {
      damaged("the header is not a JSON object");
    }
    if (!header.is_object()) damaged("the header is not a JSON object");
    return header;
  }

  void read_metadata(const Json& value, Metadata& metadata) {
    if (!value.is_object()) damaged("'__metadata__' is not an object");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) damaged(fmt::format("metadata '{}' is not a string", key));
      metadata[key] = text.get<std::string>();
    }
  }

  std::uint64_t read_count(const Json& value, const std::string& name) {
    if (!value.is_number_unsigned()) damaged(fmt::format("tensor '{}' has a number that is not a count", name));
    const auto count = value.get<std::uint64_t>();
    if (count > std::uint64_t{1} << 62) damaged(fmt::format("tensor '{}' has a number out of range", name));
    return count;
  }

  TensorView read_tensor(const std::string& name, const Json& value) {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
      damaged(fmt::format("tensor '{}' needs exactly dtype, shape and data_offsets", name));
    }
    TensorView tensor;
    tensor.name = name;
    const Json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
    if (!dtype.is_string() || dtype_size(dtype.get<std::string>()) == 0) {
      damaged(fmt::format("tensor '{}' has an unknown dtype", name));
    }
    tensor.dtype = dtype.get<std::string>();
    if (!shape.is_array()) damaged(fmt::format("tensor '{}': the shape is not a list", name));
    for (const Json& extent : shape) tensor.shape.push_back(static_cast<std::int64_t>(read_count(extent, name)));
    if (!offsets.is_array() || offsets.size() != 2) damaged(fmt::format("tensor '{}' needs two offsets", name));
    const std::uint64_t begin = read_count(offsets[0], name), end = read_count(offsets[1], name);
    if (begin > end || end > data_.size()) damaged(fmt::format("tensor '{}' lies outside the file", name));
    const auto expected = byte_count(tensor.dtype, tensor.shape);
    if (!expected || *expected != end - begin)
      damaged(fmt::format("tensor '{}': its bytes do not fit its shape", name));
    tensor.data = data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    return tensor;
  }

  void require_no_holes(std::vector<TensorView>& tensors) const {
    std::stable_sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
      return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
    });
    const std::byte* expected = data_.data();
    for (const TensorView& tensor : tensors) {
      if (tensor.data.data() != expected)
        damaged(fmt::format("there is a gap or an overlap before tensor '{}'", tensor.name));
      expected += tensor.data.size();
    }
    if (expected != data_.data() + data_.size()) damaged("there are bytes after the last tensor");
  }

  std::span<const std::byte> bytes_, data_;
  const std::string& place_;
};

}  // namespace

std::size_t dtype_size(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.size;
  }
  return 0;
}

std::string safetensors_header(std::span<const TensorView> tensors, const Metadata& metadata) {
  static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "__metadata__" || header.contains(tensor.name)) {
      throw std::invalid_argument("safetensors: name '" + tensor.name + "' is taken");
    }
    const auto bytes = byte_count(tensor.dtype, tensor.shape);
    if (!bytes || *bytes != tensor.data.size()) {
      throw std::invalid_argument("safetensors: data of '" + tensor.name + "' does not fit its dtype and shape");
    }
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + *bytes}}};
    offset += *bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string result;
  for (std::size_t i = 0; i < kLengthBytes; ++i) result += static_cast<char>(text.size() >> 8 * i & 0xff);
  return result + text;
}

Safetensors Safetensors::parse(std::vector<std::byte> bytes, const std::string& place) {
  Safetensors result;
  result.bytes_ = std::move(bytes);
  Parser(result.bytes_, place).run(result.tensors_, result.metadata_);
  return result;
}

Safetensors Safetensors::read(const std::filesystem::path& path) {
  const std::string content = read_file(path, std::uint64_t{1} << 40);
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  return parse(std::vector<std::byte>(bytes.begin(), bytes.end()), path.string());
}

const TensorView* Safetensors::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const TensorView& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

}  // namespace isobit::archive
