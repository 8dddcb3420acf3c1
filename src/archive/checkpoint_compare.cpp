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

// Where the central directory lies, how many members it has, and where the records that name it begin.
struct Directory {
  std::uint64_t count = 0, begin = 0, end = 0;
};

// From the end record, which is the file's last 22 bytes (a comment could hold another one), and zip64's, which PyTorch
// always writes and believes before it: both must say the same.
std::optional<Directory> directory_of(const Bytes& file, std::uint64_t size) {
  constexpr std::uint64_t kEnd = 22, kLocator = 20, kRecord = 56;
  if (size < kEnd || file.text(size - kEnd, 4) != "PK\5\6" || file.number(size - 2, 2) != 0) return {};
  const std::uint64_t end = size - kEnd;
  const auto count = file.number(end + 10, 2), begin = file.number(end + 16, 4);
  if (!count || !begin) return {};
  const bool has_locator = end >= kLocator && file.text(end - kLocator, 4) == "PK\6\7";
  if (!has_locator) {
    if (*count == 0xffff || *begin == 0xffffffff) return {};
    return Directory{*count, *begin, end};
  }
  const auto record = file.number(end - kLocator + 8, 8);
  if (!record || *record != end - kLocator - kRecord || file.text(*record, 4) != "PK\6\6") return {};
  const auto all = file.number(*record + 32, 8), first = file.number(*record + 48, 8);
  if (!all || !first) return {};
  if ((*count != 0xffff && *count != *all) || (*begin != 0xffffffff && *begin != *first)) return {};
  return Directory{*all, *first, *record};
}

// Bytes after a member's data that repeat its size, where its header says that they are there.
std::optional<std::uint64_t> size_of_descriptor(const Bytes& file, std::uint64_t header, std::uint64_t at,
                                                std::uint64_t size) {
  const auto flags = file.number(header + 6, 2);
  if (!flags) return {};
  if ((*flags & 8) == 0) return 0;
  if (file.text(at, 4) != "PK\7\10") return {};
  if (file.number(at + 8, 4) == size && file.number(at + 12, 4) == size) return 16;
  return file.number(at + 8, 8) == size && file.number(at + 16, 8) == size ? std::optional<std::uint64_t>(24)
                                                                           : std::nullopt;
}

// The members of a zip file without compression as PyTorch writes it: one after the other in the order of the central
// directory, which follows them; no byte is left over, or read by one reader and not by another. Nothing for any other
// file.
std::optional<Members> stored_members(std::string_view content) {
  const Bytes file(content);
  const auto directory = directory_of(file, content.size());
  if (!directory) return {};
  Members members;
  std::uint64_t entry = directory->begin, next = 0;  // next: where a member begins
  for (std::uint64_t i = 0; i < directory->count; ++i) {
    const auto method = file.number(entry + 10, 2), name_size = file.number(entry + 28, 2);
    const auto extra_size = file.number(entry + 30, 2), comment = file.number(entry + 32, 2);
    if (file.text(entry, 4) != "PK\1\2" || !method || *method != 0 || !name_size || !extra_size || !comment) return {};
    const auto name = file.text(entry + 46, *name_size);
    const auto place = place_of(file, entry, entry + 46 + *name_size, *extra_size);
    if (!name || !place || place->header != next || file.text(place->header, 4) != "PK\3\4") return {};
    const auto name_there = file.number(place->header + 26, 2), extra_there = file.number(place->header + 28, 2);
    if (!name_there || !extra_there || file.text(place->header + 30, *name_there) != name) return {};
    const std::uint64_t begin = place->header + 30 + *name_there + *extra_there;
    const auto data = file.text(begin, place->size);
    if (!data || !members.emplace(*name, *data).second) return {};
    const auto descriptor = size_of_descriptor(file, place->header, begin + place->size, place->size);
    if (!descriptor) return {};
    next = begin + place->size + *descriptor;
    entry += 46 + *name_size + *extra_size + *comment;
  }
  return next == directory->begin && entry == directory->end ? std::optional(members) : std::nullopt;
}

// The folder that all members lie in, with its slash; nothing where there are several.
std::optional<std::string_view> top_folder(const Members& members) {
  if (members.empty()) return {};
  const std::string_view first = members.begin()->first, folder = first.substr(0, first.find('/') + 1);
  for (const auto& [name, data] : members) {
    if (!name.starts_with(folder) || folder.empty()) return {};
  }
  return folder;
}

// What torch.save writes about itself, which differs between versions of PyTorch: numbers that no tensor is read by.
// The order of bytes is not among them.
bool is_frame(std::string_view name, std::string_view data) {
  if (data.size() > 64 || data.find_first_not_of("0123456789\n") != std::string_view::npos) return false;
  return name == "version" || name == ".format_version" || name == ".storage_alignment" ||
         name == ".data/serialization_id";
}

// The first member of `a` that `b` lacks or has with other bytes; "" where there is none.
std::string first_other(const Members& a, const Members& b, std::string_view folder) {
  for (const auto& [name, data] : a) {
    const auto other = b.find(name);
    if (other != b.end() && other->second == data) continue;
    const std::string_view plain = name.substr(folder.size());
    if (!is_frame(plain, data) || (other != b.end() && !is_frame(plain, other->second))) return std::string(name);
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
  const auto folder = top_folder(*a);
  if (!folder || top_folder(*b) != folder) return "its bytes";
  const std::string other = first_other(*a, *b, *folder);
  return other.empty() ? first_other(*b, *a, *folder) : other;
}

}  // namespace isobit::archive
