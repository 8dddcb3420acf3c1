#include "train/demo_images.h"

#include <cstdint>
#include <string>

#include "archive/files.h"
#include "contract/philox.h"

namespace isobit::train {
namespace {

constexpr int kSide = 28, kCells = 7, kCell = kSide / kCells, kClasses = 10;
constexpr std::uint32_t kPurpose = 0x64656d6f;  // "demo"

void append_big_endian(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift & 255));
}

std::string idx_header(std::initializer_list<std::uint32_t> sizes) {
  std::string out{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) append_big_endian(out, size);
  return out;
}

bool bright(int label, int y, int x) {
  if (y < 0 || x < 0 || y >= kSide || x >= kSide) return false;
  const std::uint64_t key = contract::derive_key(1, kPurpose, 0, static_cast<std::uint32_t>(label));
  return (contract::random_word(key, static_cast<std::uint64_t>(y / kCell * kCells + x / kCell)) >> 31) != 0;
}

// Words 0 to 2 of a sample's numbers place it; one word for each pixel follows, from 4 on.
void append_image(std::string& out, std::uint64_t key, int label) {
  const int dy = static_cast<int>(contract::random_word(key, 0) % 7) - 3,
            dx = static_cast<int>(contract::random_word(key, 1) % 7) - 3;
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const std::uint32_t word = contract::random_word(key, static_cast<std::uint64_t>(4 + y * kSide + x));
      const bool noise = (word >> 30) == 0;
      const std::uint32_t value = noise ? word & 255 : bright(label, y + dy, x + dx) ? 200 : 30;
      out.push_back(static_cast<char>(value));
    }
  }
}

void write_part(const std::filesystem::path& folder, const std::string& name, std::uint32_t part, std::uint32_t count) {
  std::string images = idx_header({count, kSide, kSide}), labels = idx_header({count});
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t key = contract::derive_key(1, kPurpose, 1 + part, i);
    const int label = static_cast<int>(contract::random_word(key, 2) % kClasses);
    append_image(images, key, label);
    labels.push_back(static_cast<char>(label));
  }
  archive::write_file(folder / (name + "-images-idx3-ubyte"), images);
  archive::write_file(folder / (name + "-labels-idx1-ubyte"), labels);
}

}  // namespace

void write_demo_images(const std::filesystem::path& folder) {
  archive::make_folders(folder);
  write_part(folder, "train", 0, 12000);
  write_part(folder, "t10k", 1, 2000);
}

}  // namespace isobit::train
