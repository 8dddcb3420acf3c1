#include "samples/idx_reader.h"

#include <gtest/gtest.h>

#include "samples/data_files.h"

namespace isobit::samples {
namespace {

const Bytes kPixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

class IdxReader : public testing::Test {
 protected:
  // What reading the bytes as images (rank 3) or labels says; "" where it succeeds.
  std::string error_of(const Bytes& bytes, bool images, bool gzip) {
    const auto path = folder_.path() / (gzip ? "data.gz" : "data");
    gzip ? write_gzip(path, bytes) : write_plain(path, bytes);
    return error_of(path.string(), images);
  }
  static std::string error_of(const std::string& path, bool images) {
    try {
      if (images)
        (void)read_idx_images(path);
      else
        (void)read_idx_labels(path, 10);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  ScratchFolder folder_;
};

TEST_F(IdxReader, ReadsPlainAndGzip) {
  for (const bool gzip : {false, true}) {
    const auto path = folder_.path() / "images";
    const Bytes bytes = idx_bytes({2, 2, 3}, kPixels);
    gzip ? write_gzip(path, bytes) : write_plain(path, bytes);
    const IdxImages images = read_idx_images(path.string());
    EXPECT_EQ(images.count, 2);
    EXPECT_EQ(images.height, 2);
    EXPECT_EQ(images.width, 3);
    EXPECT_EQ(images.pixels, kPixels);
  }
  write_plain(folder_.path() / "labels", idx_bytes({3}, {0, 9, 4}));
  EXPECT_EQ(read_idx_labels((folder_.path() / "labels").string(), 10), (Bytes{0, 9, 4}));
}

TEST_F(IdxReader, NamesWhatIsWrong) {
  Bytes good = idx_bytes({2, 2, 3}, kPixels), wrong_type = good,
        huge = idx_bytes({0xffffffff, 0xffffffff, 0xffffffff}, {});
  wrong_type[2] = 0x0d;
  const Bytes shorter(good.begin(), good.end() - 1), header_only(good.begin(), good.begin() + 9),
      stub(good.begin(), good.begin() + 3);
  Bytes longer = good;
  longer.push_back(0);
  for (const bool gzip : {false, true}) {
    EXPECT_EQ(error_of(good, true, gzip), "");
    EXPECT_NE(error_of(shorter, true, gzip).find("truncated: 11 of 12"), std::string::npos);
    EXPECT_NE(error_of(header_only, true, gzip).find("truncated within its header"), std::string::npos);
    EXPECT_NE(error_of(stub, true, gzip).find("truncated"), std::string::npos);
    EXPECT_NE(error_of({}, true, gzip).find("truncated"), std::string::npos);
    EXPECT_NE(error_of(longer, true, gzip).find("longer than"), std::string::npos);
    EXPECT_NE(error_of(wrong_type, true, gzip).find("wrong magic number 0x00000d03"), std::string::npos);
    EXPECT_NE(error_of(good, false, gzip).find("wrong magic number 0x00000803"), std::string::npos);
    EXPECT_NE(error_of(huge, true, gzip).find("2^40"), std::string::npos);
    EXPECT_NE(error_of(idx_bytes({0, 2, 2}, {}), true, gzip).find("empty"), std::string::npos);
    EXPECT_NE(error_of(idx_bytes({3}, {1, 10, 2}), false, gzip).find("label 10 of sample 1 is out of range 0..9"),
              std::string::npos);
  }
}

TEST_F(IdxReader, NamesDamagedGzip) {
  const auto path = folder_.path() / "images.gz";
  write_gzip(path, idx_bytes({100, 28, 28}, Bytes(100 * 28 * 28, 7)));
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, size - 9);  // loses part of the data and the checksum
  EXPECT_NE(error_of(path.string(), true).find("truncated"), std::string::npos);
  std::filesystem::resize_file(path, size / 2);
  EXPECT_NE(error_of(path.string(), true).find("truncated"), std::string::npos);
  write_gzip(path, idx_bytes({100, 28, 28}, Bytes(100 * 28 * 28, 7)));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size) - 6);
  file.put('\x55');  // the checksum
  file.close();
  EXPECT_NE(error_of(path.string(), true).find("damaged"), std::string::npos) << error_of(path.string(), true);
}

TEST_F(IdxReader, NamesMissingFilesAndFolders) {
  EXPECT_NE(error_of((folder_.path() / "absent").string(), true).find("missing"), std::string::npos);
  EXPECT_NE(error_of(folder_.path().string(), true).find("not a data file"), std::string::npos);
}

}  // namespace
}  // namespace isobit::samples
