#include <fmt/format.h>

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "archive/user_error.h"
#include "samples/image_file.h"

#ifndef LIBJPEG_TURBO_VERSION
#error "libjpeg-turbo is needed: other libraries decode the same file to other pixels"
#endif
#define ISOBIT_TEXT(x) #x
#define ISOBIT_VALUE_TEXT(x) ISOBIT_TEXT(x)

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr int kMostScans = 200;  // of a progressive file; encoders write about ten

std::size_t big_endian_pair(const std::byte* from) {
  return std::to_integer<std::size_t>(from[0]) << 8 | std::to_integer<std::size_t>(from[1]);
}

// Plain data, since libjpeg's errors jump out of its functions.
struct Decoding {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  ImageSize image;
  const std::byte* data;
  std::size_t size;
  std::uint8_t* out;
  bool other_size;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void stop(j_common_ptr info) {
  auto* const decoding = static_cast<Decoding*>(info->client_data);
  info->err->format_message(info, decoding->message);
  std::longjmp(decoding->back, 1);
}

// A level below 0 is a warning: the data are corrupt, and pixels would be guessed.
void stop_at_warning(j_common_ptr info, int level) {
  if (level < 0) stop(info);
}

void stop_at_many_scans(j_common_ptr info) {
  auto* const decoding = static_cast<Decoding*>(info->client_data);
  if (decoding->info.input_scan_number <= kMostScans) return;
  std::snprintf(decoding->message, sizeof decoding->message, "more than %d scans", kMostScans);
  std::longjmp(decoding->back, 1);
}

// No object here has a destructor, which a jump would pass over.
bool read_pixels(Decoding* decoding) {
  jpeg_decompress_struct* const info = &decoding->info;
  if (setjmp(decoding->back) != 0) return false;
  jpeg_create_decompress(info);
  info->client_data = decoding;
  decoding->progress.progress_monitor = stop_at_many_scans;
  info->progress = &decoding->progress;
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(decoding->data), decoding->size);
  jpeg_read_header(info, TRUE);
  info->dct_method = JDCT_ISLOW;
  info->do_fancy_upsampling = TRUE;
  info->do_block_smoothing = FALSE;
  info->out_color_space = decoding->image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(info);
  if (info->output_width != decoding->image.width || info->output_height != decoding->image.height ||
      info->output_components != decoding->image.channels) {
    decoding->other_size = true;
    return false;
  }
  const auto stride = static_cast<std::size_t>(decoding->image.width * decoding->image.channels);
  while (info->output_scanline < info->output_height) {
    JSAMPROW row = decoding->out + info->output_scanline * stride;
    jpeg_read_scanlines(info, &row, 1);
  }
  jpeg_finish_decompress(info);
  return true;
}

}  // namespace

ImageSize jpeg_size(FileBytes file, const std::string& place) {
  // Segments, each a marker and a length, up to the frame's header.
  for (std::size_t at = 2; file.size() - at >= 4;) {
    if (file[at] != std::byte{0xff}) damaged_image(place, "a segment of its header begins with no marker");
    const int marker = std::to_integer<int>(file[at + 1]);
    if (marker == 0xff) {  // a byte that fills
      ++at;
      continue;
    }
    const std::size_t length = big_endian_pair(&file[at + 2]);
    if (marker < 0xc0 || marker == 0xd9 || marker == 0xda || (marker >= 0xd0 && marker <= 0xd8) || length < 2)
      damaged_image(place, "its header ends without a size");
    const bool frame = marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (!frame) {
      if (length + 2 > file.size() - at) break;
      at += length + 2;
      continue;
    }
    if (length < 8 || file.size() - at < 10) break;
    if (file[at + 4] != std::byte{8})
      throw UserError(place, fmt::format("has {} bits per channel", std::to_integer<int>(file[at + 4])),
                      "save it with 8 bits");
    const int channels = std::to_integer<int>(file[at + 9]);
    if (channels != 1 && channels != 3)
      throw UserError(place, fmt::format("has {} channels{}", channels, channels == 4 ? " (CMYK)" : ""),
                      "save it in grey or RGB: Image.convert('RGB')");
    return {channels, static_cast<std::int64_t>(big_endian_pair(&file[at + 5])),
            static_cast<std::int64_t>(big_endian_pair(&file[at + 7]))};
  }
  damaged_image(place, "truncated within its header");
}

void decode_jpeg(FileBytes file, const std::string& place, const ImageSize& size, std::uint8_t* out) {
  Decoding decoding{};
  decoding.info.err = jpeg_std_error(&decoding.errors);
  decoding.errors.error_exit = stop;
  decoding.errors.emit_message = stop_at_warning;
  decoding.info.client_data = &decoding;
  decoding.image = size;
  decoding.data = file.data();
  decoding.size = file.size();
  decoding.out = out;
  const bool sound = read_pixels(&decoding);
  jpeg_destroy_decompress(&decoding.info);
  if (sound) return;
  if (decoding.other_size) damaged_image(place, "its pixels have another size than its header says");
  damaged_image(place, decoding.message);
}

std::string jpeg_library() { return "libjpeg-turbo " ISOBIT_VALUE_TEXT(LIBJPEG_TURBO_VERSION); }

}  // namespace isobit::samples
