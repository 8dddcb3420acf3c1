#include <gtest/gtest.h>

#include "samples/data_files.h"
#include "samples/sample_values.h"
#include "samples/source.h"

namespace isobit::samples {
namespace {

class IdxSamples : public testing::Test {
 protected:
  Source source() const {
    Source source;
    source.folder = folder_.path();
    source.file = "images";
    source.labels = "labels";
    return source;
  }
  void write(const char* name, const std::vector<std::uint32_t>& dims, const Bytes& elements, bool gzip) const {
    const auto path = folder_.path() / name;
    gzip ? write_gzip(path, idx_bytes(dims, elements)) : write_plain(path, idx_bytes(dims, elements));
  }
  ScratchFolder folder_;
};

TEST_F(IdxSamples, AreImagesWithLabels) {
  for (const bool gzip : {false, true}) {
    write("images", {3, 1, 2}, {1, 2, 3, 4, 5, 6}, gzip);
    write("labels", {3}, {7, 255, 0}, gzip);
    const auto samples = open_source(source());
    EXPECT_EQ(samples->count(), 3);
    const std::vector<Field> fields = {{"images", Element::uint8, {1, 1, 2}, Role::input},
                                       {"labels", Element::int64, {}, Role::target}};
    EXPECT_EQ(samples->fields(), fields);
    EXPECT_EQ(values<std::uint8_t>(*samples, 0, {2, 0, 2}), (Bytes{5, 6, 1, 2, 5, 6}));
    EXPECT_EQ(values<std::int64_t>(*samples, 1), (std::vector<std::int64_t>{7, 255, 0}));
    EXPECT_EQ(samples->name(1), "labels, sample 1");
    EXPECT_EQ(samples->weight(0), 1);
    EXPECT_EQ(samples->targets(0), -1);
    EXPECT_EQ(samples->group(0), "");
    EXPECT_TRUE(samples->classes().empty());
    EXPECT_THROW((void)values<std::int64_t>(*samples, 1, {3}), std::out_of_range);
    EXPECT_THROW((void)values<std::int64_t>(*samples, 1, {-1}), std::out_of_range);
  }
}

TEST_F(IdxSamples, MayHaveMasks) {
  write("images", {2, 1, 2}, {1, 2, 3, 4}, false);
  write("labels", {2, 1, 2}, {0, 1, 2, 3}, false);
  Source with_masks = source();
  with_masks.masks = true;
  const auto samples = open_source(with_masks);
  EXPECT_EQ(samples->fields()[1], (Field{"labels", Element::int64, {1, 2}, Role::target}));
  EXPECT_EQ(values<std::int64_t>(*samples, 1, {1, 0}), (std::vector<std::int64_t>{2, 3, 0, 1}));
}

TEST_F(IdxSamples, NameWhatDoesNotFit) {
  write("images", {3, 1, 2}, {1, 2, 3, 4, 5, 6}, false);
  write("labels", {2}, {7, 1}, false);
  EXPECT_NE(error_of([&] { (void)open_source(source()); }).find("has 2 labels for the 3 images of "),
            std::string::npos);
  Source with_masks = source();
  with_masks.masks = true;
  write("labels", {3, 2, 2}, Bytes(12), false);
  EXPECT_NE(error_of([&] { (void)open_source(with_masks); }).find("has masks of 2x2 pixels for images of 1x2"),
            std::string::npos);
  Source with_groups = source();
  with_groups.group = "subject";
  EXPECT_NE(error_of([&] { (void)open_source(with_groups); }).find("data.group: format 'idx' has no columns"),
            std::string::npos);
  Source other = source();
  other.format = "image";
  EXPECT_EQ(error_of([&] { (void)open_source(other); }), "data.format: no format 'image' (did you mean 'images'?)");
}

TEST_F(IdxSamples, NoticeThatTheirFileChanged) {
  write("images", {2, 1, 2}, {1, 2, 3, 4}, false);
  write("labels", {2}, {0, 1}, false);
  const auto samples = open_source(source());
  std::filesystem::resize_file(folder_.path() / "images", 18);
  EXPECT_NE(error_of([&] { (void)values<std::uint8_t>(*samples, 0); }).find("changed while it was in use"),
            std::string::npos);
  EXPECT_EQ(values<std::int64_t>(*samples, 1), (std::vector<std::int64_t>{0, 1}));
}

class TextSamples : public IdxSamples {
 protected:
  std::shared_ptr<const Samples> open(const std::string& text, std::int64_t window) const {
    write_text(folder_.path() / "text", text);
    Source text_source;
    text_source.format = "text";
    text_source.folder = folder_.path();
    text_source.file = "text";
    text_source.window = window;
    return open_source(text_source);
  }
};

TEST_F(TextSamples, AreWindowsAndWhatComesNext) {
  const auto samples = open("abcdefgh\xff", 4);
  EXPECT_EQ(samples->count(), 2);
  EXPECT_EQ(samples->fields()[0], (Field{"tokens", Element::int64, {4}, Role::input}));
  EXPECT_EQ(samples->fields()[1], (Field{"next", Element::int64, {4}, Role::target}));
  EXPECT_EQ(values<std::int64_t>(*samples, 0, {1, 0}),
            (std::vector<std::int64_t>{'e', 'f', 'g', 'h', 'a', 'b', 'c', 'd'}));
  EXPECT_EQ(values<std::int64_t>(*samples, 1, {1}), (std::vector<std::int64_t>{'f', 'g', 'h', 255}));
  EXPECT_EQ(samples->name(1), "text, byte 4");
  EXPECT_EQ(open("abcdefgh", 4)->count(), 1);  // the byte behind the last window is missing
  EXPECT_EQ(open("abcde", 1)->count(), 4);
}

TEST_F(TextSamples, NeedAWindowAndTheByteBehindIt) {
  EXPECT_NE(error_of([&] { (void)open("abcd", 4); }).find("has 4 bytes, too few for a window of 4"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)open("", 4); }).find("has 0 bytes"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)open("abcd", 0); }).find("data.window"), std::string::npos);
}

}  // namespace
}  // namespace isobit::samples
