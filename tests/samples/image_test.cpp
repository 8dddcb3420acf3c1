#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "archive/sha256.h"
#include "samples/image_file.h"
#include "samples/image_files.h"
#include "samples/sample_values.h"
#include "samples/source.h"

namespace isobit::samples {
namespace {

FileBytes bytes_of_text(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

Bytes decoded(const std::string& file) {
  const FileBytes bytes = bytes_of_text(file);
  const ImageKind kind = kind_of(bytes);
  const ImageSize size = size_of(kind, bytes, "file");
  Bytes out(static_cast<std::size_t>(size.elements()));
  decode(kind, bytes, "file", size, out.data());
  return out;
}

std::string refusal(const std::string& file) {
  return error_of([&] { (void)decoded(file); });
}

Bytes ramp(std::size_t n, int step = 7) {
  Bytes values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::uint8_t>(i * static_cast<std::size_t>(step));
  return values;
}

TEST(Png, IsDecodedToPlanes) {
  EXPECT_EQ(decoded(png_of(3, 2, {1, 2, 3, 4, 5, 6}, {.type = 0})), (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(decoded(png_of(2, 1, {1, 2, 3, 4, 5, 6})), (Bytes{1, 4, 2, 5, 3, 6}));
  const std::string palette = png_chunk("PLTE", std::string("\x0a\x14\x1e\xff\x80\x01", 6));
  EXPECT_EQ(decoded(png_of(3, 1, {1, 0, 1}, {.type = 3, .before_pixels = palette})),
            (Bytes{255, 10, 255, 128, 20, 128, 1, 30, 1}));
  // Fewer bits are widened to the whole range: 0, 85, 170, 255.
  EXPECT_EQ(decoded(png_of(4, 1, {}, {.depth = 2, .type = 0, .rows = std::string("\0\x1b", 2)})),
            (Bytes{0, 85, 170, 255}));
  EXPECT_EQ(decoded(png_of(3, 1, {}, {.depth = 1, .type = 0, .rows = std::string("\0\xa0", 2)})), (Bytes{255, 0, 255}));
  // What a file says of colours changes no pixel.
  const std::string gamma = png_chunk("gAMA", png_number(100000)) + png_chunk("tEXt", "a");
  EXPECT_EQ(decoded(png_of(1, 1, {9, 8, 7}, {.before_pixels = gamma})), (Bytes{9, 8, 7}));
}

TEST(Png, RefusesWhatItWouldHaveToChange) {
  EXPECT_NE(refusal(png_of(1, 1, {1, 2, 3, 4}, {.type = 6})).find("transparency"), std::string::npos);
  EXPECT_NE(refusal(png_of(1, 1, {1, 2}, {.type = 4})).find("transparency"), std::string::npos);
  EXPECT_NE(refusal(png_of(1, 1, {1, 2}, {.depth = 16, .type = 0})).find("16 bits"), std::string::npos);
  const std::string transparent = png_chunk("tRNS", std::string(2, '\0'));
  EXPECT_NE(refusal(png_of(1, 1, {1}, {.type = 0, .before_pixels = transparent})).find("transparent colours"),
            std::string::npos);
  EXPECT_NE(refusal(png_of(70000, 1, {1}, {.type = 0})).find("has 1x70000 pixels in 1 channel, more than are read"),
            std::string::npos);
  EXPECT_NE(refusal(png_of(60000, 60000, {}, {.type = 0, .rows = "x"})).find("more than are read"), std::string::npos);
  EXPECT_NE(refusal(png_of(0, 1, {}, {.type = 0, .rows = "x"})).find("no pixels"), std::string::npos);
  EXPECT_NE(refusal("GIF89a").find("neither a PNG nor a JPEG"), std::string::npos);
}

const std::string kPng = png_of(5, 4, ramp(60));
const std::string kJpeg = jpeg_of(17, 13, ramp(17 * 13 * 3, 3));

void expect_sound(const std::string& whole) {
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {  // decoded or refused, nothing else
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    (void)refusal(flipped);
  }
}

TEST(Png, DamagedItIsRefused) {
  expect_sound(kPng);
  std::string flipped = kPng;  // in the pixels: their check sum says so
  flipped[kPng.size() - 20] = static_cast<char>(flipped[kPng.size() - 20] ^ 1);
  EXPECT_NE(refusal(flipped).find("file: damaged: "), std::string::npos);
}

TEST(Jpeg, DamagedItIsRefused) {
  expect_sound(kJpeg);
  expect_sound(jpeg_of(17, 13, ramp(17 * 13), {.channels = 1, .progressive = true}));
  EXPECT_NE(refusal(kJpeg.substr(0, kJpeg.size() - 30)).find("file: damaged: Premature end of JPEG file"),
            std::string::npos);
}

TEST(Jpeg, IsNearWhatWasEncoded) {
  Bytes smooth(32 * 24 * 3);
  for (std::size_t i = 0; i < smooth.size(); ++i) smooth[i] = static_cast<std::uint8_t>(100 + i % 3 * 20 + i / 3 % 32);
  for (const bool progressive : {false, true}) {
    const Bytes out = decoded(jpeg_of(32, 24, smooth, {.progressive = progressive}));
    ASSERT_EQ(out.size(), smooth.size());
    for (std::size_t channel = 0; channel < 3; ++channel) {
      for (std::size_t pixel = 0; pixel < 32 * 24; ++pixel)
        EXPECT_NEAR(out[channel * 32 * 24 + pixel], smooth[pixel * 3 + channel], 12);
    }
  }
  EXPECT_EQ(decoded(jpeg_of(9, 5, Bytes(45, 77), {.channels = 1})), Bytes(45, 77));
  EXPECT_NE(refusal(jpeg_of(2, 2, Bytes(16), {.channels = 4})).find("has 4 channels (CMYK)"), std::string::npos);
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

// A file with subsampled colours and its pixels: another library, version or instruction set must give the same.
TEST(Jpeg, KeepsItsGoldenPixels) {
  const std::string file = from_hex(
      "ffd8ffe000104a46494600010100000100010000ffdb004300080606070605080707070909080a0c140d0c0b0b0c1912130f141d1a1f"
      "1e1d1a1c1c20242e2720222c231c1c2837292c30313434341f27393d38323c2e333432ffdb0043010909090c0b0c180d0d1832211c21"
      "3232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232323232ffc00011"
      "08000d001103012200021101031101ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b51000"
      "02010303020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a"
      "161718191a25262728292a3435363738393a434445464748494a535455565758595a636465666768696a737475767778797a83848586"
      "8788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5"
      "e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f0100030101010101010101010000000000000102030405060708090a0bffc400b51100"
      "020102040403040705040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a1624"
      "34e125f11718191a262728292a35363738393a434445464748494a535455565758595a636465666768696a737475767778797a828384"
      "85868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4"
      "e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c03010002110311003f00e6ac7c39fe80ff0027f17a7d2ba0b7f0e7fc79fc9e9dbe95af"
      "1dec16de21b5d03ec9bbed31997cfdf8db8dc71b71cfdcf5ef5a36faf42d65aecc96015b438e4600c9913140e7d3e5fb9efd6bd2cdf3"
      "6c4caed2df5f93d17e22c8717888c3da35a25cdd367a2fc4c1dba5ff00cf7ffc86dfe14571bff0b1a0ff00a01ffe4d7ff614579bec31"
      "7fcafef891feb3f107fcf98ff5ff006f9fffd9");
  const Bytes out = decoded(file);
  ASSERT_EQ(out.size(), 3u * 13 * 17);
  EXPECT_EQ(archive::sha256(std::string_view(reinterpret_cast<const char*>(out.data()), out.size())),
            "4fd0cf1aa79ab3cc9ec336ef661704580204666415c27ad835b6c7684869c4b7");
}

class ImageFolder : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& content) const { write_text(folder_.path() / path, content); }
  static std::string grey(const Bytes& values) {
    return png_of(2, static_cast<std::uint32_t>(values.size() / 2), values, {.type = 0});
  }
  std::shared_ptr<const Samples> open(const std::function<void(Source&)>& change = {}) const {
    return open_source(source(change));
  }
  Source source(const std::function<void(Source&)>& change = {}) const {
    Source source;
    source.format = "images";
    source.folder = folder_.path();
    source.file = "train";
    if (change) change(source);
    return source;
  }
  std::string error(const std::function<void(Source&)>& change = {}) const {
    std::string what = error_of([&] { (void)open(change); });
    const std::string folder = folder_.path().string() + "/";
    if (what.starts_with(folder)) what.erase(0, folder.size());
    return what;
  }
  ScratchFolder folder_;
};

TEST_F(ImageFolder, HasAClassPerFolder) {
  put("train/dog/2.png", grey({5, 6, 7, 8}));
  put("train/dog/10.png", grey({9, 10, 11, 12}));
  put("train/Cat/a.png", grey({1, 2, 3, 4}));
  const auto samples = open();
  EXPECT_EQ(samples->count(), 3);
  EXPECT_EQ(samples->classes(), (std::vector<std::string>{"Cat", "dog"}));
  EXPECT_EQ(samples->fields()[0], (Field{"images", Element::uint8, {1, 2, 2}, Role::input}));
  EXPECT_EQ(samples->fields()[1], (Field{"labels", Element::int64, {}, Role::target}));
  EXPECT_EQ(samples->name(1), "train/dog/10.png");  // by bytes
  EXPECT_EQ(values<std::uint8_t>(*samples, 0, {2, 0}), (Bytes{5, 6, 7, 8, 1, 2, 3, 4}));
  EXPECT_EQ(values<std::int64_t>(*samples, 1), (std::vector<std::int64_t>{0, 1, 1}));
  EXPECT_NE(decoder(source()).find("libjpeg-turbo "), std::string::npos);
  EXPECT_NE(decoder(source()).find(", libpng 1."), std::string::npos);
}

TEST_F(ImageFolder, NamesWhatIsNotAsTheOthers) {
  EXPECT_NE(error().find("train: data folder missing"), std::string::npos);
  std::filesystem::create_directories(folder_.path() / "train");
  EXPECT_EQ(error().substr(0, 15), "train: is empty");
  put("train/a/1.png", grey({1, 2}));
  put("train/b/2.png", grey({1, 2, 3, 4}));
  EXPECT_EQ(
      error(),
      "train/b/2.png: has 2x2 pixels in 1 channel, a/1.png has 1x2 pixels in 1 channel (bring all images to one size "
      "and number of channels)");
  put("train/b/2.png", png_of(2, 1, ramp(6)));
  EXPECT_NE(error().find("has 1x2 pixels in 3 channels, a/1.png has 1x2 pixels in 1 channel"), std::string::npos);
  put("train/b/2.png", jpeg_of(2, 1, {1, 2}, {.channels = 1}));
  EXPECT_NE(error().find("train: has files of two kinds: a/1.png is PNG, b/2.png is JPEG"), std::string::npos);
  put("train/b/2.png", "text");
  EXPECT_NE(error().find("a/1.png is PNG, b/2.png is neither PNG nor JPEG"), std::string::npos);
  put("train/a/1.png", "text");
  EXPECT_NE(error().find("train/a/1.png: neither a PNG nor a JPEG image"), std::string::npos);
  put("train/a/1.png", grey({1, 2}));
  put("train/b/2.png", grey({1, 2}));
  std::filesystem::create_directories(folder_.path() / "train/c");
  EXPECT_NE(error().find("train/c: the folder of a class is empty"), std::string::npos);
  std::filesystem::remove(folder_.path() / "train/c");
  EXPECT_EQ(error(), "");
  put("train/notes.txt", "x");
  EXPECT_NE(error().find("train/notes.txt: is no folder of a class"), std::string::npos);
  EXPECT_NE(error([](Source& s) { s.group = "subject"; }).find("data.group"), std::string::npos);
}

TEST_F(ImageFolder, DamagedPixelsAreNamedWhenTheyAreRead) {
  std::string damaged = grey({1, 2, 3, 4});
  damaged[damaged.size() - 18] = static_cast<char>(damaged[damaged.size() - 18] ^ 1);
  put("train/a/1.png", grey({1, 2, 3, 4}));
  put("train/a/2.png", damaged);
  const auto samples = open();
  EXPECT_EQ(values<std::uint8_t>(*samples, 0, {0}), (Bytes{1, 2, 3, 4}));
  EXPECT_NE(error_of([&] { (void)values<std::uint8_t>(*samples, 0); }).find("train/a/2.png: damaged: "),
            std::string::npos);
  put("train/a/1.png", grey({1, 2}));
  EXPECT_NE(error_of([&] {
              (void)values<std::uint8_t>(*samples, 0, {0});
            }).find("train/a/1.png: changed while it was in use"),
            std::string::npos);
}

TEST_F(ImageFolder, ATableListsImages) {
  put("train/x/1.png", grey({1, 2}));
  put("train/2.png", grey({3, 4}));
  put("train/unused.txt", "");
  put("list.csv", "cat,file,subject,dog,w\n1,x/1.png,anna,0,2\n0,2.png,\"b,c\",1,0.5\n");
  const auto change = [](Source& source) {
    source.table = "list.csv";
    source.targets = {"cat", "dog"};
    source.whole_targets = false;
    source.group = "subject";
    source.weight = "w";
  };
  const auto samples = open(change);
  EXPECT_EQ(samples->count(), 2);
  EXPECT_EQ(samples->fields()[1], (Field{"labels", Element::float32, {2}, Role::target}));
  EXPECT_EQ(values<float>(*samples, 1), (std::vector<float>{1, 0, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(*samples, 0, {1, 0}), (Bytes{3, 4, 1, 2}));
  EXPECT_EQ(samples->name(0), "train/x/1.png");
  EXPECT_EQ(samples->group(1), "b,c");
  EXPECT_EQ(samples->weight(0), 2);
  EXPECT_TRUE(samples->classes().empty());

  const auto refused = [&](const std::string& table) {
    put("list.csv", table);
    return error([](Source& source) { source.table = "list.csv"; });
  };
  EXPECT_EQ(refused("file,label\nx/1.png,0\n2.png,1\n"), "");
  EXPECT_NE(refused("file,label\n../a.png,0\n").find("list.csv, line 2, column 1 (file): '../a.png' is no name below"),
            std::string::npos);
  for (const char* name : {"/etc/a.png", "a//b.png", "./a.png", "a/..", "a/"})
    EXPECT_NE(refused(std::string("file,label\n") + name + ",0\n").find("is no name below"), std::string::npos) << name;
  EXPECT_NE(refused("file,label\nx/1.png,0\n2.png,1\nx/1.png,1\n")
                .find("line 4, column 1 (file): 'x/1.png' is on line 2, too"),
            std::string::npos);
  EXPECT_NE(refused("file,label\nx/2.png,0\n").find("train/x/2.png: data file missing"), std::string::npos);
  EXPECT_NE(refused("name,label\nx/1.png,0\n").find("has no column 'file'"), std::string::npos);
}

TEST_F(ImageFolder, ThreadsReadTheSame) {
  for (int i = 0; i < 20; ++i) put("train/a/" + std::to_string(i) + ".jpg", jpeg_of(17, 13, ramp(17 * 13 * 3, i)));
  const auto samples = open();
  const Bytes expected = values<std::uint8_t>(*samples, 0);
  std::vector<Bytes> found(4);
  std::vector<std::thread> threads;
  for (Bytes& out : found) threads.emplace_back([&] { out = values<std::uint8_t>(*samples, 0); });
  for (std::thread& thread : threads) thread.join();
  for (const Bytes& out : found) EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace isobit::samples
