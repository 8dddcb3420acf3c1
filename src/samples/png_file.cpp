#include <fmt/format.h>
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "archive/user_error.h"
#include "samples/image_file.h"

namespace isobit::samples {
namespace {

using archive::UserError;

std::uint32_t big_endian(const std::byte* from) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(from[i]);
  return value;
}

// What libpng's functions see; plain data, since its errors jump out of them.
struct Reading {
  const std::byte* data = nullptr;
  std::size_t size = 0, at = 0;
  ImageSize image;
  std::uint8_t* out = nullptr;
  bool other_size = false;
  char message[160] = {};
};

void read_bytes(png_structp png, png_bytep out, std::size_t n) {
  auto* const reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (n > reading->size - reading->at) png_error(png, "truncated");
  std::memcpy(out, reading->data + reading->at, n);
  reading->at += n;
}

// Warnings, too: what is not as it should be is not trained on.
[[noreturn]] void stop(png_structp png, png_const_charp message) {
  auto* const reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading->message, sizeof reading->message, "%s", message);
  png_longjmp(png, 1);
}
void stop_at_warning(png_structp png, png_const_charp message) { stop(png, message); }

// No object here has a destructor, which a jump would pass over.
bool read_pixels(png_structp png, png_infop info, Reading* reading) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_read_fn(png, reading, read_bytes);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // times, texts, colour profiles
  png_set_user_limits(png, 65535, 65535);
  png_read_info(png, info);
  const int type = png_get_color_type(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png, info) < 8) png_set_expand_gray_1_2_4_to_8(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  const auto stride = static_cast<std::size_t>(reading->image.width * reading->image.channels);
  if (png_get_rowbytes(png, info) != stride || png_get_image_height(png, info) != reading->image.height) {
    reading->other_size = true;
    return false;
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (std::int64_t row = 0; row < reading->image.height; ++row)
      png_read_row(png, reading->out + static_cast<std::size_t>(row) * stride, nullptr);
  }
  png_read_end(png, nullptr);
  return true;
}

}  // namespace

ImageSize png_size(FileBytes file, const std::string& place) {
  constexpr std::size_t kSignature = 8, kChunk = 12, kHeader = 13;
  if (file.size() < kSignature + kChunk + kHeader || big_endian(&file[8]) != kHeader ||
      std::memcmp(&file[12], "IHDR", 4) != 0)
    damaged_image(place, "truncated within its header");
  const int depth = std::to_integer<int>(file[24]), type = std::to_integer<int>(file[25]);
  if ((type & PNG_COLOR_MASK_ALPHA) != 0)
    throw UserError(place, "has a channel of transparency", "remove it: Image.convert('RGB') or convert('L')");
  if (depth == 16) throw UserError(place, "has 16 bits per channel", "save it with 8 bits, or use format npy");
  if (type != PNG_COLOR_TYPE_GRAY && type != PNG_COLOR_TYPE_RGB && type != PNG_COLOR_TYPE_PALETTE)
    damaged_image(place, fmt::format("its colours are of type {}", type));
  // A colour that is transparent stands in a chunk of its own, before the pixels.
  for (std::size_t at = kSignature; file.size() - at >= kChunk;) {
    const std::size_t length = big_endian(&file[at]);
    const std::string_view name(reinterpret_cast<const char*>(&file[at + 4]), 4);
    if (name == "IDAT" || name == "IEND") break;
    if (name == "tRNS")
      throw UserError(place, "has transparent colours", "remove them: Image.convert('RGB') or convert('L')");
    if (length > file.size() - at - kChunk) break;  // the decoder says what is wrong
    at += kChunk + length;
  }
  return {type == PNG_COLOR_TYPE_GRAY ? 1 : 3, big_endian(&file[20]), big_endian(&file[16])};
}

void decode_png(FileBytes file, const std::string& place, const ImageSize& size, std::uint8_t* out) {
  Reading reading;
  reading.data = file.data();
  reading.size = file.size();
  reading.image = size;
  reading.out = out;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, stop, stop_at_warning);
  if (png == nullptr) throw std::bad_alloc();
  png_infop info = png_create_info_struct(png);
  const bool sound = info != nullptr && read_pixels(png, info, &reading);
  png_destroy_read_struct(&png, &info, nullptr);
  if (sound) return;
  if (reading.other_size) damaged_image(place, "its rows have another length than its header says");
  damaged_image(place, reading.message);
}

std::string png_library() { return fmt::format("libpng {}", png_get_libpng_ver(nullptr)); }

}  // namespace isobit::samples
