#include "samples/image_file.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr std::int64_t kMostSide = 65535;
constexpr std::int64_t kMostValues = std::int64_t{1} << 30;

}  // namespace

std::string ImageSize::text() const {
  return fmt::format("{}x{} pixels in {} channel{}", height, width, channels, channels == 1 ? "" : "s");
}

void damaged_image(const std::string& place, const std::string& what) {
  throw UserError(place, "damaged: " + archive::printable(what), "restore the file, or leave it out");
}

ImageKind kind_of(FileBytes file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(std::string_view("\x89PNG\r\n\x1a\n", 8))) return ImageKind::png;
  return text.starts_with("\xff\xd8\xff") ? ImageKind::jpeg : ImageKind::none;
}

ImageSize size_of(ImageKind kind, FileBytes file, const std::string& place) {
  if (kind == ImageKind::none) throw UserError(place, "neither a PNG nor a JPEG image", "convert it, or leave it out");
  const ImageSize size = kind == ImageKind::png ? png_size(file, place) : jpeg_size(file, place);
  if (size.height < 1 || size.width < 1) damaged_image(place, "it has no pixels");
  if (size.height > kMostSide || size.width > kMostSide || size.elements() > kMostValues) {
    throw UserError(place, fmt::format("has {}, more than are read", size.text()),
                    "cut it into tiles of at most 65535 pixels a side and 2^30 values");
  }
  return size;
}

void decode(ImageKind kind, FileBytes file, const std::string& place, const ImageSize& size, std::uint8_t* out) {
  if (kind_of(file) != kind || size_of(kind, file, place) != size)
    throw UserError(place, "changed while it was in use", "leave data files alone during a run; run again");
  const auto interleaved = kind == ImageKind::png ? decode_png : decode_jpeg;
  if (size.channels == 1) return interleaved(file, place, size, out);
  const auto pixels = static_cast<std::size_t>(size.height * size.width),
             channels = static_cast<std::size_t>(size.channels);
  std::vector<std::uint8_t> values(pixels * channels);
  interleaved(file, place, size, values.data());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) *out++ = values[pixel * channels + channel];
  }
}

std::string image_libraries() { return jpeg_library() + ", " + png_library(); }

}  // namespace isobit::samples
