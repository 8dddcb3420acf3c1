#include "archive/safetensors.h"

#include <random>

#include "small_run.h"

namespace isobit::archive {
namespace {

std::vector<std::byte> to_bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

// A file with this header (any text) and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> 8 * i & 0xff);
  return file + header + std::string(data, 'd');
}

std::string error_in(const std::string& file) {
  return error_of([&] { static_cast<void>(Safetensors::parse(to_bytes(file), "here")); });
}

std::string small_file() {
  const SmallTensors tensors(3);
  const auto views = tensors.views();
  std::string file = safetensors_header(views, {{"state", "text with \"quotes\" and \xc3\xa4\n"}});
  for (const TensorView& view : views) file.append(reinterpret_cast<const char*>(view.data.data()), view.data.size());
  return file;
}

TEST(Safetensors, ReadsWhatItWrites) {
  const Safetensors file = Safetensors::parse(to_bytes(small_file()), "here");
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.metadata().at("state"), "text with \"quotes\" and \xc3\xa4\n");
  EXPECT_EQ(file.tensors()[0].name, "weight");
  EXPECT_EQ(file.tensors()[0].dtype, "F32");
  ASSERT_NE(file.find("count"), nullptr);
  EXPECT_TRUE(file.find("count")->shape.empty());
  EXPECT_EQ(std::to_integer<int>(file.find("count")->data[0]), 3);
  EXPECT_EQ(file.find("none"), nullptr);
}

// The bytes as the format's own writer gives them for the same tensors (but for the order of names).
TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const std::vector<std::uint8_t> data = {1, 2};
  const std::vector<TensorView> views = {{"a", "U8", {2}, std::as_bytes(std::span(data))},
                                         {"empty", "F32", {0, 4}, {}}};
  std::string header =
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"empty":{"dtype":"F32","shape":[0,4],"data_offsets":[2,2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(safetensors_header(views, {}), file_of(header, 0));
  EXPECT_EQ(Safetensors::parse(to_bytes(file_of(header, 2)), "here").tensors().size(), 2u);
}

TEST(Safetensors, WriterRefusesWhatDoesNotFit) {
  const std::vector<float> data(4);
  const auto bytes = std::as_bytes(std::span(data));
  EXPECT_THROW(static_cast<void>(safetensors_header(std::vector<TensorView>{{"a", "F32", {5}, bytes}}, {})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(safetensors_header(std::vector<TensorView>{{"a", "F31", {4}, bytes}}, {})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(safetensors_header(std::vector<TensorView>{{"a", "F32", {-4}, bytes}}, {})),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(
                   safetensors_header(std::vector<TensorView>{{"a", "F32", {4}, bytes}, {"a", "F32", {4}, bytes}}, {})),
               std::invalid_argument);
}

TEST(Safetensors, MalformedFilesAreRefused) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(error_in(file_of(good, 8)), "");
  const std::pair<std::string, const char*> bad[] = {
      {"", "length alone takes 8"},
      {"1234567", "length alone takes 8"},
      {file_of("", 0), "begin with '{'"},
      {file_of(good, 7), "outside the file"},
      {file_of(good, 9), "bytes after the last"},
      {file_of(" " + good, 8), "begin with '{'"},
      {file_of(good + "x", 8), "not a JSON object"},
      {file_of("{\"a\":1}", 8), "needs exactly"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), "needs exactly"},
      {file_of(R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype"},
      {file_of(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype"},
      {file_of(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "not a count"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8), "not a count"},
      {file_of(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8), "is not a list"},
      {file_of(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "do not fit its shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "outside the file"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8), "needs two offsets"},
      {file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "a gap"},
      // 2^32 * 2^32 * 4 wraps to 0; so does 2^62 * 4.
      {file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       "do not fit its shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})", 0),
       "do not fit its shape"},
      {file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 8), "out of range"},
      {file_of(
           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
           8),
       "an overlap"},
      {file_of(
           R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
           8),
       "has a name twice"},
      {file_of(R"({"__metadata__":{"k":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
       "is not a string"},
      {file_of(R"({"__metadata__":[]})", 0), "is not an object"},
      {std::string(7, '\xff') + '\x7f' + good, "its header claims"},
      {file_of("{" + std::string(200'000, '['), 0), "not a JSON object"},
  };
  for (const auto& [file, words] : bad)
    EXPECT_NE(error_in(file).find(words), std::string::npos) << words << ": " << error_in(file);
}

// Random damage: parsed or refused, never anything else (the sanitizer builds watch the reads).
TEST(Safetensors, RandomDamageIsParsedOrRefused) {
  const std::string sound = small_file();
  std::mt19937 engine(1);
  const auto any = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine); };
  int refused = 0, parsed = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string file = sound;
    for (std::size_t changes = 1 + any(4); changes > 0 && !file.empty(); --changes) {
      const std::size_t at = any(file.size());
      switch (any(5)) {
        case 0: file[at] = static_cast<char>(file[at] ^ 1 << any(8)); break;
        case 1: file[at] = "0123456789[]{},:\"\\ -eE"[any(22)]; break;
        case 2: file.erase(at, 1 + any(8)); break;
        case 3: file.insert(at, file.substr(any(file.size()), any(16))); break;
        default: file.resize(at + 1); break;
      }
    }
    try {
      const Safetensors result = Safetensors::parse(to_bytes(file), "here");
      std::size_t sum = 0;
      for (const TensorView& tensor : result.tensors()) {
        for (const std::byte byte : tensor.data) sum += std::to_integer<std::size_t>(byte);
      }
      EXPECT_LE(sum, file.size() * 255);
      ++parsed;
    } catch (const UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_GT(parsed, 100);  // damage to the elements alone
}

}  // namespace
}  // namespace isobit::archive
