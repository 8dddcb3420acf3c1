// Readers of training data: arrays of numpy, tables, images. docs/data.md has their limits.
#include <cmath>
#include <cstring>

#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "samples/image_file.h"
#include "samples/image_files.h"
#include "samples/mapped_file.h"
#include "samples/npy_array.h"
#include "samples/npy_files.h"
#include "samples/samples.h"
#include "samples/source.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace samples;

std::vector<std::byte> all_of(const Samples& samples, std::size_t field) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(samples.count()));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
  std::vector<std::byte> out(ids.size() * samples.fields()[field].bytes());
  samples.read(field, ids, out.data());
  return out;
}

}  // namespace

// ---- One .npy file

void run_npy(std::string_view input) {
  const fs::path path = scratch() / "x.npy";
  put(path, input);
  accepts([&] {
    const auto file = std::make_shared<const MappedFile>(path.string(), "");
    const NpyArray array(file, file->bytes(), {}, path.string());
    require(array.header().data_at + array.header().bytes() == input.size(), "an array is the whole file");
    require(array.count() > 0, "an array has samples");
    if (array.is_text()) {
      for (std::int64_t i = 0; i < array.count(); ++i)
        accepts([&] { require(array.text(i).size() <= array.header().width, "a text is no longer than its element"); });
      return;
    }
    for (const Role role : {Role::input, Role::target}) {
      const Element element = array.element(role);
      std::vector<std::byte> out(array.header().elements() * bytes_of(element));
      accepts([&] { array.read(0, array.header().elements(), element, out.data()); });
    }
  });
}

std::vector<std::string> npy_seeds() {
  return {npy_of<float>("<f4", {2, 3}, std::vector<float>(6, 0.5f)),
          npy_of<double>("<f8", {2}, {1e300, 0.1}),
          npy_of<std::int16_t>("<i2", {3, 1}, {1, -2, 3}),
          npy_of<std::uint8_t>("|b1", {4}, {0, 1, 2, 3}),
          npy_text("<U2", "(2,)", std::string("a\0\0\0\xe9\0\0\0\x00\xf6\x01\0\0\0\0\0", 16)),
          npy_text("|S3", "(2,)", std::string("ab\0c\0d", 6)),
          npy_header_text(2, "{'descr': '<i8', 'fortran_order': True, 'shape': (1,)}") + std::string(8, '\1'),
          npy_header_text(3, "{'descr': '<u4', 'fortran_order': False, 'shape': (1, 0, 99999999999)}")};
}

// ---- A .npz file

void run_npz(std::string_view input) {
  put(scratch() / "data.npz", input);
  Source source;
  source.format = "npy";
  source.folder = scratch();
  source.file = "data.npz";
  accepts([&] {
    const auto samples = open_source(source);
    require(samples->count() > 0 && samples->fields().size() == 2, "two arrays of samples");
    for (std::size_t field = 0; field < 2; ++field) {
      if (samples->fields()[field].bytes() * static_cast<std::size_t>(samples->count()) < 1 << 24)
        accepts([&] { (void)all_of(*samples, field); });
    }
  });
}

std::vector<std::string> npz_seeds() {
  const Members members = {{"x", npy_of<float>("<f4", {2, 1}, {1, 2})},
                           {"y", npy_of<std::int64_t>("<i8", {2}, {0, 1})}};
  return {npz_of(members, {}),
          npz_of(members, {.deflated = true}),
          npz_of(members, {.large = true}),
          npz_of(members, {.deflated = true, .large = true}),
          npz_of({members[0]}, {}),
          npz_of({}, {})};
}

// ---- A table. What is read can be written, and reads back the same.

void run_csv(std::string_view input) {
  Source source;
  source.format = "csv";
  source.folder = scratch();
  source.file = "table.csv";
  source.group = "s";
  source.weight = "w";
  put(scratch() / "table.csv", input);
  accepts([&] {
    const auto samples = open_source(source);
    const auto inputs = all_of(*samples, 0), targets = all_of(*samples, 1);
    const std::size_t width = inputs.size() / sizeof(float) / static_cast<std::size_t>(samples->count());
    std::string text = "y,s,w";
    for (std::size_t i = 0; i < width; ++i) text += ",x" + std::to_string(i);
    for (std::int64_t row = 0; row < samples->count(); ++row) {
      std::int64_t label = 0;
      std::memcpy(&label, targets.data() + static_cast<std::size_t>(row) * sizeof label, sizeof label);
      std::string group;
      for (const char c : samples->group(row)) group += c == '"' ? "\"\"" : std::string(1, c);
      char number[32];
      std::snprintf(number, sizeof number, "%.9g", static_cast<double>(samples->weight(row)));
      require(samples->weight(row) >= 0 && !group.empty() && !samples->name(row).empty(), "columns are sound");
      text += "\r\n" + std::to_string(label) + ",\"" + group + "\"," + number;
      for (std::size_t i = 0; i < width; ++i) {
        float value = 0;
        std::memcpy(&value, inputs.data() + (static_cast<std::size_t>(row) * width + i) * sizeof value, sizeof value);
        require(std::isfinite(value), "numbers are finite");
        std::snprintf(number, sizeof number, "%.9g", static_cast<double>(value));
        text += std::string(",") + number;
      }
    }
    put(scratch() / "table.csv", text);
    require(accepts([&] {
              const auto again = open_source(source);
              require(all_of(*again, 0) == inputs && all_of(*again, 1) == targets, "the same numbers");
              for (std::int64_t row = 0; row < samples->count(); ++row)
                require(again->group(row) == samples->group(row) && again->weight(row) == samples->weight(row),
                        "the same columns");
            }),
            "a table that is written is read");
  });
}

std::vector<std::string> csv_seeds() {
  return {"a,y,s,w\n1,2,g,1\n-2.5e-3,0,h,0.5\n",
          "\xef\xbb\xbf\"y\",\"s\",\"x \"\"1\"\"\",w\r\n1,\"a,\r\nb\"\"\",.5,\"2\"\r\n",
          "y,s,w,x\n1,a,0,1e-46\n1,a,0,3.4028235e38\n", "s,w,y,z\n\"\",1,2,3\n"};
}

// ---- An image

void run_image(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input.data(), input.size()));
  const ImageKind kind = kind_of(bytes);
  accepts([&] {
    const ImageSize size = size_of(kind, bytes, "image");
    require(size.elements() > 0 && (size.channels == 1 || size.channels == 3), "an image has pixels");
    if (size.elements() > 1 << 20) return;  // takes long, and nothing else
    std::vector<std::uint8_t> out(static_cast<std::size_t>(size.elements()));
    decode(kind, bytes, "image", size, out.data());
    std::vector<std::uint8_t> again(out.size(), 1);
    decode(kind, bytes, "image", size, again.data());
    require(out == again, "every pixel is written, and the same ones");
  });
}

std::vector<std::string> image_seeds() {
  Bytes values(9 * 7 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i * 5);
  const std::string palette = png_chunk("PLTE", std::string("\x0a\x14\x1e\xff\x80\x01", 6));
  return {png_of(9, 7, values),
          png_of(9, 7, Bytes(63, 9), {.type = 0}),
          png_of(3, 1, {1, 0, 1}, {.type = 3, .before_pixels = palette}),
          png_of(4, 1, {}, {.depth = 2, .type = 0, .rows = std::string("\0\x1b", 2)}),
          jpeg_of(9, 7, values),
          jpeg_of(9, 7, values, {.progressive = true}),
          jpeg_of(9, 7, Bytes(63, 9), {.channels = 1}),
          jpeg_of(9, 7, values, {.subsampled = false})};
}

// ---- A text in windows; the first byte says how wide they are

void run_text(std::string_view input) {
  if (input.empty()) return;
  Source source;
  source.format = "text";
  source.folder = scratch();
  source.file = "text.txt";
  source.window = static_cast<signed char>(input[0]);
  const std::string_view content = input.substr(1);
  put(scratch() / "text.txt", content);
  accepts([&] {
    const auto samples = open_source(source);
    const auto tokens = all_of(*samples, 0), next = all_of(*samples, 1);
    const std::size_t count = tokens.size() / sizeof(std::int64_t);
    require(count == static_cast<std::size_t>(samples->count() * source.window) && count < content.size(),
            "windows, and the byte behind them");
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t token = 0, following = 0;
      std::memcpy(&token, tokens.data() + i * sizeof token, sizeof token);
      std::memcpy(&following, next.data() + i * sizeof following, sizeof following);
      require(
          token == static_cast<unsigned char>(content[i]) && following == static_cast<unsigned char>(content[i + 1]),
          "each byte and the one behind it");
    }
  });
}

std::vector<std::string> text_seeds() {
  return {"\x04to be or not to be",
          "\x01"
          "ab",
          std::string("\0abc", 4),
          "\xff"
          "abc",
          "\x7f" + std::string(300, '\xfe')};
}

}  // namespace isobit::fuzz
