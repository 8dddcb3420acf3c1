// PNG and JPEG files for tests: PNG written byte by byte, JPEG by libjpeg.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <jpeglib.h>

#include "samples/data_files.h"

namespace isobit::samples {

inline std::string png_number(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

inline std::string png_chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return png_number(static_cast<std::uint32_t>(data.size())) + body + png_number(static_cast<std::uint32_t>(sum));
}

struct PngOptions {
  int depth = 8, type = 2;                    // 0 grey, 2 RGB, 3 palette, 4 and 6 with transparency
  std::string before_pixels = {}, rows = {};  // further chunks; rows as they stand in the file, else those of `values`
};

// `values` interleaved, one byte each.
inline std::string png_of(std::uint32_t width, std::uint32_t height, const Bytes& values,
                          const PngOptions& options = {}) {
  std::string rows = options.rows;
  if (rows.empty()) {
    const std::size_t stride = values.size() / height;
    for (std::size_t row = 0; row < height; ++row) {
      rows += '\0';  // no filter
      rows.append(values.begin() + static_cast<std::ptrdiff_t>(row * stride),
                  values.begin() + static_cast<std::ptrdiff_t>((row + 1) * stride));
    }
  }
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  const std::string header = png_number(width) + png_number(height) + static_cast<char>(options.depth) +
                             static_cast<char>(options.type) + std::string(3, '\0');
  return std::string("\x89PNG\r\n\x1a\n", 8) + png_chunk("IHDR", header) + options.before_pixels +
         png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

struct JpegOptions {
  int channels = 3;
  bool progressive = false, subsampled = true;
};

inline std::string jpeg_of(std::uint32_t width, std::uint32_t height, const Bytes& values,
                           const JpegOptions& options = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &out, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = options.channels;
  info.in_color_space = options.channels == 1 ? JCS_GRAYSCALE : options.channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  if (!options.subsampled) info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = 1;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    auto* row =
        const_cast<JSAMPLE*>(values.data() + info.next_scanline * width * static_cast<std::uint32_t>(options.channels));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(out), size);
  jpeg_destroy_compress(&info);
  std::free(out);
  return file;
}

}  // namespace isobit::samples
