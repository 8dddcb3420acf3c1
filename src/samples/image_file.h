// PNG and JPEG files in memory: what they are, how large, and their pixels.
//
// Taken: 8 bits or fewer per channel in grey (1 channel), RGB or palette colours (3 channels). Refused, with what to
// do: transparency, 16 bits, CMYK. A file that its library warns of is damaged. Decoding is fixed: PNG without any
// conversion of colours; JPEG by libjpeg-turbo's exact integer transform (JDCT_ISLOW) with smooth upsampling and
// without block smoothing. Orientation and colour profiles are not looked at. Errors are archive::UserError naming
// `place`. No state; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace isobit::samples {

enum class ImageKind { none, png, jpeg };

struct ImageSize {
  std::int64_t channels = 0, height = 0, width = 0;

  [[nodiscard]] std::int64_t elements() const { return channels * height * width; }
  // "32x30 pixels in 3 channels"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

using FileBytes = std::span<const std::byte>;

// By its first bytes.
[[nodiscard]] ImageKind kind_of(FileBytes file);
// From the header alone. No side is longer than 65,535 pixels, and no image has more than 2^30 values.
[[nodiscard]] ImageSize size_of(ImageKind kind, FileBytes file, const std::string& place);
// All pixels, [channels, height, width], of a file that must have this size.
void decode(ImageKind kind, FileBytes file, const std::string& place, const ImageSize& size, std::uint8_t* out);
// "libjpeg-turbo 2.1.5, libpng 1.6.39"
[[nodiscard]] std::string image_libraries();

// One kind each (png_file.cpp, jpeg_file.cpp).
[[nodiscard]] ImageSize png_size(FileBytes file, const std::string& place);
[[nodiscard]] ImageSize jpeg_size(FileBytes file, const std::string& place);
// Interleaved: [height, width, channels].
void decode_png(FileBytes file, const std::string& place, const ImageSize& size, std::uint8_t* out);
void decode_jpeg(FileBytes file, const std::string& place, const ImageSize& size, std::uint8_t* out);
[[nodiscard]] std::string png_library();
[[nodiscard]] std::string jpeg_library();
[[noreturn]] void damaged_image(const std::string& place, const std::string& what);

}  // namespace isobit::samples
