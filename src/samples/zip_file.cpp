#include "samples/zip_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr const char* kZipRemedy = "restore the file; numpy.savez writes such files";
constexpr std::uint64_t kDeflateRatio = 1032;  // no more is possible
constexpr std::uint64_t kEndSize = 22, kEntrySize = 46, kLocalSize = 30;

// Little-endian numbers and texts at checked positions.
class ZipBytes {
 public:
  ZipBytes(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  [[noreturn]] void damaged(const std::string& what) const { throw UserError(path_, "damaged: " + what, kZipRemedy); }
  [[nodiscard]] std::span<const std::byte> part(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) damaged("a part of it lies behind its end");
    return bytes_.subspan(at, size);
  }
  [[nodiscard]] std::uint64_t number(std::uint64_t at, int width) const {
    const auto place = part(at, static_cast<std::uint64_t>(width));
    std::uint64_t value = 0;
    for (int i = 0; i < width; ++i)
      value |= std::to_integer<std::uint64_t>(place[static_cast<std::size_t>(i)]) << 8 * i;
    return value;
  }
  [[nodiscard]] std::string_view text(std::uint64_t at, std::uint64_t size) const {
    const auto place = part(at, size);
    return {reinterpret_cast<const char*>(place.data()), place.size()};
  }
  [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
};

struct Directory {
  std::uint64_t at = 0, members = 0;
};

Directory find_directory(const ZipBytes& file) {
  if (file.size() < kEndSize) file.damaged("it is too short for a zip file");
  // The end record stands at the end, before a comment of up to 65,535 bytes whose length it says.
  for (std::uint64_t back = kEndSize; back <= std::min<std::uint64_t>(file.size(), kEndSize + 65535); ++back) {
    const std::uint64_t end = file.size() - back;
    if (file.text(end, 4) != "PK\5\6" || file.number(end + 20, 2) != back - kEndSize) continue;
    Directory found{file.number(end + 16, 4), file.number(end + 10, 2)};
    std::uint64_t volumes = file.number(end + 4, 2);
    if (found.members == 0xffff || found.at == 0xffffffff) {  // zip64: an end record of its own, named before this one
      if (end < 20 || file.text(end - 20, 4) != "PK\6\7") file.damaged("it lacks the end record of its zip64 part");
      const std::uint64_t record = file.number(end - 20 + 8, 8);
      if (file.text(record, 4) != "PK\6\6") file.damaged("the end record of its zip64 part is none");
      volumes = file.number(record + 16, 4);
      found = {file.number(record + 48, 8), file.number(record + 32, 8)};
    }
    if (volumes != 0) file.damaged("it is one of several volumes");
    if (found.members > file.size() / kEntrySize) file.damaged("it claims more members than it has room for");
    return found;
  }
  file.damaged("it has no directory at its end: it is truncated, or no zip file");
}

struct Sizes {
  std::uint64_t packed = 0, size = 0, header = 0;
};

// Sizes of 4 GiB and more stand in the extra field.
Sizes sizes_of(const ZipBytes& file, std::uint64_t entry, std::uint64_t extra, std::uint64_t extra_size) {
  Sizes sizes{file.number(entry + 20, 4), file.number(entry + 24, 4), file.number(entry + 42, 4)};
  if (sizes.packed != 0xffffffff && sizes.size != 0xffffffff && sizes.header != 0xffffffff) return sizes;
  for (std::uint64_t at = extra; at + 4 <= extra + extra_size;) {
    const std::uint64_t kind = file.number(at, 2), length = file.number(at + 2, 2);
    if (kind == 1) {
      std::uint64_t value = at + 4;
      for (std::uint64_t* const field : {&sizes.size, &sizes.packed, &sizes.header}) {
        if (*field != 0xffffffff) continue;
        if (value + 8 > at + 4 + length) file.damaged("a size of a large member is missing");
        *field = file.number(value, 8);
        value += 8;
      }
      return sizes;
    }
    at += 4 + length;
  }
  file.damaged("a size of a large member is missing");
}

ZipMember read_member(const ZipBytes& file, std::uint64_t entry, std::uint64_t name_size, std::uint64_t extra_size) {
  ZipMember member;
  member.name = std::string(file.text(entry + kEntrySize, name_size));
  const std::string shown = archive::printable(member.name);
  const std::uint64_t flags = file.number(entry + 8, 2), method = file.number(entry + 10, 2);
  if ((flags & 1) != 0) file.damaged(fmt::format("its member '{}' is encrypted", shown));
  if (method != 0 && method != 8)
    file.damaged(fmt::format("its member '{}' is compressed by method {}", shown, method));
  member.deflated = method == 8;
  member.check_sum = static_cast<std::uint32_t>(file.number(entry + 16, 4));
  const Sizes sizes = sizes_of(file, entry, entry + kEntrySize + name_size, extra_size);
  if (file.text(sizes.header, 4) != "PK\3\4") file.damaged(fmt::format("its member '{}' has no header", shown));
  const std::uint64_t data =
      sizes.header + kLocalSize + file.number(sizes.header + 26, 2) + file.number(sizes.header + 28, 2);
  member.packed = file.part(data, sizes.packed);
  member.size = sizes.size;
  if (!member.deflated && sizes.packed != sizes.size) file.damaged(fmt::format("its member '{}' has two sizes", shown));
  if (member.deflated && sizes.size > sizes.packed * kDeflateRatio + kDeflateRatio)
    file.damaged(
        fmt::format("its member '{}' claims {} bytes, more than its {} can hold", shown, sizes.size, sizes.packed));
  return member;
}

}  // namespace

std::vector<ZipMember> zip_members(std::span<const std::byte> bytes, const std::string& path) {
  const ZipBytes file(bytes, path);
  const Directory directory = find_directory(file);
  std::vector<ZipMember> members;
  std::unordered_set<std::string> names;
  std::uint64_t entry = directory.at, total = 0;
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    if (file.text(entry, 4) != "PK\1\2") file.damaged("an entry of its directory is none");
    const std::uint64_t name_size = file.number(entry + 28, 2), extra_size = file.number(entry + 30, 2);
    members.push_back(read_member(file, entry, name_size, extra_size));
    total += members.back().packed.size();  // each is within the file: no overflow before the comparison
    if (total > bytes.size()) file.damaged("its members overlap");
    if (!names.insert(members.back().name).second)
      file.damaged(fmt::format("it has two members '{}'", archive::printable(members.back().name)));
    entry += kEntrySize + name_size + extra_size + file.number(entry + 32, 2);
  }
  return members;
}

std::vector<std::byte> unpack(const ZipMember& member, std::uint64_t most, const std::string& path) {
  const std::string shown = archive::printable(member.name);
  const std::uint64_t wanted = std::min(most, member.size);
  if (!member.deflated) {
    const auto part = member.packed.first(wanted);
    return {part.begin(), part.end()};
  }
  std::vector<std::byte> out;
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  const struct End {
    z_stream* stream;
    ~End() { inflateEnd(stream); }
  } end{&stream};
  std::size_t fed = 0, done = 0;
  int code = Z_OK;
  while (code == Z_OK && done < wanted) {
    // Grown as data comes; pieces, since zlib counts in 32 bits.
    const std::size_t room = std::min<std::uint64_t>(wanted - done, 1 << 24);
    const std::size_t feed = std::min<std::size_t>(member.packed.size() - fed, 1 << 24);
    out.resize(done + room);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(member.packed.data() + fed));
    stream.avail_in = static_cast<uInt>(feed);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(room);
    code = inflate(&stream, Z_NO_FLUSH);
    fed += feed - stream.avail_in;
    done += room - stream.avail_out;
  }
  if (done < wanted || (code != Z_OK && code != Z_STREAM_END))
    throw UserError(path, fmt::format("damaged: its member '{}' cannot be decompressed", shown), kZipRemedy);
  if (wanted == member.size) {
    std::uint32_t sum = 0;
    for (std::size_t at = 0; at < out.size(); at += 1 << 30)
      sum = static_cast<std::uint32_t>(crc32(sum, reinterpret_cast<const Bytef*>(out.data() + at),
                                             static_cast<uInt>(std::min<std::size_t>(out.size() - at, 1 << 30))));
    if (sum != member.check_sum)
      throw UserError(path, fmt::format("damaged: the check sum of its member '{}' differs", shown), kZipRemedy);
  }
  return out;
}

}  // namespace isobit::samples
