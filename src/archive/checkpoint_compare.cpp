#include "archive/checkpoint_compare.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "archive/files.h"

namespace isobit::archive {
namespace {

using Members = std::map<std::string_view, std::string_view>;

// Little-endian numbers at checked places.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] std::optional<std::uint64_t> number(std::uint64_t at, int width) const {
    if (at > bytes_.size() || bytes_.size() - at < static_cast<std::uint64_t>(width)) return {};
    std::uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes_[at + i])} << 8 * i;
    return value;
  }
  [[nodiscard]] std::optional<std::string_view> text(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return {};
    return bytes_.substr(at, size);
  }

 private:
  std::string_view bytes_;
};

// Size and place of one member; sizes of 4 GiB and more stand in the extra field (zip64).
struct Place {
  std::uint64_t size = 0, header = 0;
};
std::optional<Place> place_of(const Bytes& file, std::uint64_t entry, std::uint64_t extra, std::uint64_t extra_size) {
  const auto packed = file.number(entry + 20, 4), size = file.number(entry + 24, 4),
             header = file.number(entry + 42, 4);
  if (!packed || !size || !header || *packed != *size) return {};
  Place place{*size, *header};
  if (place.size != 0xffffffff && place.header != 0xffffffff) return place;
  for (std::uint64_t at = extra; at + 4 <= extra + extra_size;) {
    const auto kind = file.number(at, 2), length = file.number(at + 2, 2);
    if (!kind || !length) return {};
    std::uint64_t value = at + 4;
    if (*kind == 1) {
      const auto next = [&](std::uint64_t& out) {
        const auto number = file.number(value, 8);
        if (number) out = *number;
        value += 8;
        return number.has_value();
      };
      std::uint64_t same = 0;
      if (place.size == 0xffffffff && (!next(place.size) || !next(same) || same != place.size)) return {};
      if (place.header == 0xffffffff && !next(place.header)) return {};
      return place;
    }
    at += 4 + *length;
  }
  return {};
}

// The members of a zip file without compression, from its central directory; nothing for any other file.
std::optional<Members> stored_members(std::string_view content) {
  const Bytes file(content);
  const auto end = content.rfind("PK\5\6");
  if (end == std::string_view::npos) return {};
  auto count = file.number(end + 10, 2), at = file.number(end + 16, 4);
  if (!count || !at) return {};
  if (*count == 0xffff || *at == 0xffffffff) {  // zip64: its own end record, named by a locator before this one
    const auto record = end >= 20 ? file.number(end - 20 + 8, 8) : std::nullopt;
    if (!record || file.text(*record, 4) != "PK\6\6") return {};
    count = file.number(*record + 32, 8);
    at = file.number(*record + 48, 8);
    if (!count || !at) return {};
  }
  Members members;
  std::uint64_t total = 0;  // members that overlap would make a small file take long to compare
  for (std::uint64_t i = 0, entry = *at; i < *count; ++i) {
    const auto method = file.number(entry + 10, 2), name_size = file.number(entry + 28, 2);
    const auto extra_size = file.number(entry + 30, 2), comment = file.number(entry + 32, 2);
    if (file.text(entry, 4) != "PK\1\2" || !method || *method != 0 || !name_size || !extra_size || !comment) return {};
    const auto name = file.text(entry + 46, *name_size);
    const auto place = place_of(file, entry, entry + 46 + *name_size, *extra_size);
    if (!name || !place || file.text(place->header, 4) != "PK\3\4") return {};
    const auto name_there = file.number(place->header + 26, 2), extra_there = file.number(place->header + 28, 2);
    if (!name_there || !extra_there) return {};
    const auto data = file.text(place->header + 30 + *name_there + *extra_there, place->size);
    if (!data || (total += data->size()) > content.size() || !members.emplace(*name, *data).second) return {};
    entry += 46 + *name_size + *extra_size + *comment;
  }
  return members;
}

// What torch.save writes about itself, which differs between versions of PyTorch.
bool is_frame(std::string_view name) {
  for (const std::string_view end :
       {"/version", "/byteorder", "/.format_version", "/.storage_alignment", "/.data/serialization_id"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// The first member of `a` that `b` lacks or has with other bytes; "" where there is none.
std::string first_other(const Members& a, const Members& b) {
  for (const auto& [name, data] : a) {
    const auto other = b.find(name);
    if (!is_frame(name) && (other == b.end() || other->second != data)) return std::string(name);
  }
  return "";
}

}  // namespace

std::string different_part(const std::filesystem::path& recorded, const std::filesystem::path& recomputed) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 40;
  const std::string first = read_file(recorded, kLimit), second = read_file(recomputed, kLimit);
  if (first == second) return "";
  const auto a = stored_members(first), b = stored_members(second);
  if (!a || !b) return "its bytes";
  const std::string other = first_other(*a, *b);
  return other.empty() ? first_other(*b, *a) : other;
}

}  // namespace isobit::archive
