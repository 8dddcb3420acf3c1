// .npy and .npz files for tests, written byte by byte as numpy writes them.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace isobit::samples {

inline std::string little_endian(std::uint64_t number, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
  return bytes;
}

// Magic, version, length and the dictionary, padded to 64 bytes.
inline std::string npy_header_text(int version, std::string dictionary) {
  const std::size_t before = version == 1 ? 10 : 12;
  while ((before + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' +
         little_endian(dictionary.size(), version == 1 ? 2 : 4) + dictionary;
}

// `shape` as Python writes it.
inline std::string npy_text(const std::string& descr, const std::string& shape, const std::string& elements) {
  return npy_header_text(1, "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }") + elements;
}

template <class Value>
std::string npy_of(const std::string& descr, const std::vector<std::int64_t>& shape,
                   const std::vector<Value>& elements) {
  std::string sides;
  for (const std::int64_t side : shape) sides += std::to_string(side) + ",";
  return npy_text(descr, "(" + sides + ")",
                  std::string(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Value)));
}

using Members = std::vector<std::pair<std::string, std::string>>;

struct ZipOptions {
  bool deflated = false, large = false;  // large: sizes in the extra field (zip64)
  std::uint32_t check_sum = 0;           // is added to the right one
  int flags = 0, method = -1;
};

inline std::string deflated(const std::string& data) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, data.size()) + 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Each member with ".npy" behind its name.
inline std::string npz_of(const Members& members, const ZipOptions& options) {
  std::string file, directory;
  for (const auto& [array, data] : members) {
    const std::string name = array + ".npy", packed = options.deflated ? deflated(data) : data;
    const auto sum = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size())) + options.check_sum);
    const int method = options.method >= 0 ? options.method : options.deflated ? 8 : 0;
    const std::string about = little_endian(20, 2) + little_endian(static_cast<std::uint64_t>(options.flags), 2) +
                              little_endian(static_cast<std::uint64_t>(method), 2) + std::string(4, '\0') +
                              little_endian(sum, 4) + little_endian(options.large ? 0xffffffff : packed.size(), 4) +
                              little_endian(options.large ? 0xffffffff : data.size(), 4) +
                              little_endian(name.size(), 2);
    const std::string sizes = little_endian(data.size(), 8) + little_endian(packed.size(), 8);
    const std::string local = options.large ? little_endian(1, 2) + little_endian(16, 2) + sizes : "";
    const std::string extra =
        options.large ? little_endian(1, 2) + little_endian(24, 2) + sizes + little_endian(file.size(), 8) : "";
    directory += "PK\1\2" + little_endian(20, 2) + about + little_endian(extra.size(), 2) + std::string(10, '\0') +
                 little_endian(options.large ? 0xffffffff : file.size(), 4) + name + extra;
    file += "PK\3\4" + about + little_endian(local.size(), 2) + name + local + packed;
  }
  const std::uint64_t at = file.size();
  file += directory;
  if (options.large) {
    const std::uint64_t record = file.size();
    file += "PK\6\6" + little_endian(44, 8) + std::string(12, '\0') + little_endian(members.size(), 8) +
            little_endian(members.size(), 8) + little_endian(directory.size(), 8) + little_endian(at, 8);
    file += "PK\6\7" + little_endian(0, 4) + little_endian(record, 8) + little_endian(1, 4);
  }
  return file + "PK\5\6" + std::string(4, '\0') + little_endian(members.size(), 2) +
         little_endian(options.large ? 0xffff : members.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(options.large ? 0xffffffff : at, 4) + little_endian(0, 2);
}

}  // namespace isobit::samples
