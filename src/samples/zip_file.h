// The members of a zip file (with zip64), from its central directory: stored or deflated, read without trust.
//
// Refused: encryption, other compression, several volumes, names that occur twice, members that together are larger
// than the file or that claim more than deflate can hold. Errors are archive::UserError naming the file. No state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace isobit::samples {

struct ZipMember {
  std::string name;
  bool deflated = false;
  std::span<const std::byte> packed;  // in the file's own bytes
  std::uint64_t size = 0;             // unpacked
  std::uint32_t check_sum = 0;        // CRC-32 of what is unpacked
};

// In the order of the directory.
[[nodiscard]] std::vector<ZipMember> zip_members(std::span<const std::byte> file, const std::string& path);

// The first `most` bytes of a member, or all of it; with its check sum compared where it is all of it.
[[nodiscard]] std::vector<std::byte> unpack(const ZipMember& member, std::uint64_t most, const std::string& path);

}  // namespace isobit::samples
