#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "samples/data_files.h"
#include "samples/npy_files.h"
#include "samples/sample_values.h"
#include "samples/source.h"

namespace isobit::samples {
namespace {

class Npy : public testing::Test {
 protected:
  std::shared_ptr<const Samples> open(const std::string& file, const std::function<void(Source&)>& change = {}) const {
    Source source;
    source.format = "npy";
    source.folder = folder_.path();
    source.file = file;
    if (change) change(source);
    return open_source(source);
  }
  // Writes the arrays into a folder, a .npz with stored members, and one with deflated ones.
  void write(const Members& members) const {
    for (const auto& [name, content] : members) write_text(folder_.path() / "folder" / (name + ".npy"), content);
    write_text(folder_.path() / "stored.npz", npz_of(members, {}));
    write_text(folder_.path() / "deflated.npz", npz_of(members, {.deflated = true}));
    write_text(folder_.path() / "large.npz", npz_of(members, {.large = true}));
  }
  static constexpr const char* kForms[] = {"folder", "stored.npz", "deflated.npz", "large.npz"};
  std::string error(const std::string& array, const std::function<void(Source&)>& change = {}) const {
    write_text(folder_.path() / "one" / "x.npy", array);
    write_text(folder_.path() / "one" / "y.npy", npy_of<std::int64_t>("<i8", {2}, {0, 1}));
    std::string what = error_of([&] { (void)open("one", change); });
    const std::string folder = folder_.path().string() + "/";
    if (what.starts_with(folder)) what.erase(0, folder.size());
    return what;
  }
  ScratchFolder folder_;
};

TEST_F(Npy, ArraysAreFieldsOfEveryForm) {
  write({{"x", npy_of<float>("<f4", {2, 1, 3}, {1, 2, 3, 4, 5, 6})}, {"y", npy_of<std::int32_t>("<i4", {2}, {7, -1})}});
  for (const char* form : kForms) {
    const auto samples = open(form);
    EXPECT_EQ(samples->count(), 2);
    EXPECT_EQ(samples->fields()[0], (Field{"x", Element::float32, {1, 3}, Role::input}));
    EXPECT_EQ(samples->fields()[1], (Field{"y", Element::int64, {}, Role::target}));
    EXPECT_EQ(values<float>(*samples, 0, {1, 0}), (std::vector<float>{4, 5, 6, 1, 2, 3}));
    EXPECT_EQ(values<std::int64_t>(*samples, 1), (std::vector<std::int64_t>{7, -1}));
    EXPECT_EQ(samples->name(1), std::string(form) + ", sample 1");
  }
}

template <class Stored>
std::vector<std::int64_t> extremes() {
  return {static_cast<std::int64_t>(std::numeric_limits<Stored>::min()),
          static_cast<std::int64_t>(std::numeric_limits<Stored>::max()), 1};
}

template <class Stored>
std::string extremes_of(const char* descr) {
  return npy_of<Stored>(descr, {3}, {std::numeric_limits<Stored>::min(), std::numeric_limits<Stored>::max(), 1});
}

TEST_F(Npy, EveryTypeIsWidenedExactly) {
  const Members members = {
      {"a", extremes_of<std::int8_t>("|i1")},   {"b", extremes_of<std::int16_t>("<i2")},
      {"c", extremes_of<std::int32_t>("<i4")},  {"d", extremes_of<std::int64_t>("<i8")},
      {"e", extremes_of<std::uint8_t>("|u1")},  {"f", extremes_of<std::uint16_t>("<u2")},
      {"g", extremes_of<std::uint32_t>("<u4")}, {"h", npy_of<std::uint8_t>("|b1", {3}, {0, 1, 7})}};
  write(members);
  const std::vector<std::vector<std::int64_t>> expected = {
      extremes<std::int8_t>(),  extremes<std::int16_t>(),  extremes<std::int32_t>(),  extremes<std::int64_t>(),
      extremes<std::uint8_t>(), extremes<std::uint16_t>(), extremes<std::uint32_t>(), {0, 1, 1}};
  for (const char* form : kForms) {
    const auto samples = open(form, [](Source& source) {
      source.inputs = {"e", "h", "b"};
      source.targets = {"a", "c", "d", "f", "g"};
    });
    EXPECT_EQ(values<std::uint8_t>(*samples, 0), (Bytes{0, 255, 1}));
    EXPECT_EQ(values<std::uint8_t>(*samples, 1), (Bytes{0, 1, 1}));
    EXPECT_EQ(values<std::int64_t>(*samples, 2), expected[1]);
    const auto as_targets = open(form, [](Source& source) {
      source.inputs = {"b"};
      source.targets = {"a", "c", "d", "e", "f", "g", "h"};
    });
    const std::size_t order[] = {0, 2, 3, 4, 5, 6, 7};
    for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(values<std::int64_t>(*as_targets, i + 1), expected[order[i]]) << i;
  }
}

TEST_F(Npy, DoublesAreRoundedOnce) {
  const std::vector<double> numbers = {0.1,      -1e-300, 0x1.000001p0, 0x1.000001000001p0, 0x1.fffffefffffffp127,
                                       1.0 / 0.0};
  write({{"x", npy_of<double>("<f8", {6}, numbers)}, {"y", npy_of<std::uint8_t>("|u1", {6}, Bytes(6))}});
  const auto read = values<float>(*open("folder"), 0);
  const std::vector<float> expected = {
      0.1f, -0.0f, 1.0f, 0x1.000002p0f, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()};
  for (std::size_t i = 0; i < read.size(); ++i)
    EXPECT_EQ(std::bit_cast<std::uint32_t>(read[i]), std::bit_cast<std::uint32_t>(expected[i])) << i;
  write({{"x", npy_of<double>("<f8", {3, 2}, {1, 2, 3, -0x1.ffffffp127, 5, 6})},
         {"y", npy_of<std::uint8_t>("|u1", {3}, Bytes(3))}});
  EXPECT_NE(error_of([&] { (void)values<float>(*open("folder"), 0); }).find("x.npy, sample 1: -3.402"),
            std::string::npos);
  EXPECT_EQ(values<float>(*open("folder"), 0, {0, 2}), (std::vector<float>{1, 2, 5, 6}));
}

TEST_F(Npy, HasGroupsWeightsAndCounts) {
  const std::string u4("a\0\0\0\xe9\0\0\0\x00\xf6\x01\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);  // "a\u00e9\U0001f600" and ""
  write({{"x", npy_of<float>("<f4", {2}, {1, 2})},
         {"y", npy_of<std::int64_t>("<i8", {2}, {0, 1})},
         {"name", npy_text("<U3", "(2,)", u4)},
         {"code", npy_text("|S3", "(2,)", std::string("ab\0c\0d", 6))},
         {"number", npy_of<std::int16_t>("<i2", {2}, {-3, 12})},
         {"w", npy_of<double>("<f8", {2}, {0.5, 2})},
         {"n", npy_of<std::uint8_t>("|u1", {2}, {3, 0})}});
  for (const char* form : kForms) {
    const auto with = [&](const char* group) {
      return open(form, [&](Source& source) {
        source.group = group;
        source.weight = "w";
        source.count = "n";
      });
    };
    EXPECT_EQ(with("name")->group(0), "a\xc3\xa9\xf0\x9f\x98\x80");
    EXPECT_EQ(with("name")->group(1), "");
    EXPECT_EQ(with("code")->group(0), "ab");
    EXPECT_EQ(with("code")->group(1), std::string("c\0d", 3));
    EXPECT_EQ(with("number")->group(0), "-3");
    EXPECT_EQ(with("name")->weight(1), 2);
    EXPECT_EQ(with("name")->targets(0), 3);
  }
  const auto refused = [&](const std::function<void(Source&)>& change) {
    return error_of([&] { (void)open("folder", change); });
  };
  EXPECT_NE(refused([](Source& s) { s.group = "w"; }).find("groups are texts or whole numbers"), std::string::npos);
  EXPECT_NE(refused([](Source& s) { s.weight = "number"; }).find("number.npy, sample 0: its weight is -3"),
            std::string::npos);
  EXPECT_NE(refused([](Source& s) { s.count = "number"; }).find("number.npy, sample 0: its count is -3"),
            std::string::npos);
  EXPECT_NE(refused([](Source& s) { s.count = "w"; }).find("counts are whole numbers"), std::string::npos);
  EXPECT_NE(refused([](Source& s) { s.inputs = {"name"}; }).find("texts (<U3 [2]) are no numbers"), std::string::npos);
}

TEST_F(Npy, NamesWhatIsThere) {
  write({{"images", npy_of<float>("<f4", {2, 3}, std::vector<float>(6))},
         {"labels", npy_of<std::int64_t>("<i8", {3}, {0, 1, 2})}});
  for (const char* form : kForms) {
    EXPECT_NE(error_of([&] {
                (void)open(form);
              }).find("has no array 'x'; it has images <f4 [2, 3], labels <i8 [3] (name arrays in data.inputs)"),
              std::string::npos);
    EXPECT_NE(error_of([&] {
                (void)open(form, [](Source& s) {
                  s.inputs = {"image"};
                  s.targets = {"labels"};
                });
              }).find("(did you mean 'images'?)"),
              std::string::npos);
    EXPECT_NE(error_of([&] {
                (void)open(form, [](Source& s) {
                  s.inputs = {"images"};
                  s.targets = {"labels"};
                });
              }).find("has 3 samples, 'images' has 2"),
              std::string::npos);
  }
  EXPECT_NE(error_of([&] { (void)open("folder/images.npy"); }).find("a single array"), std::string::npos);
  EXPECT_NE(error_of([&] { (void)open("absent"); }).find("data file missing"), std::string::npos);
  std::filesystem::create_directories(folder_.path() / "empty");
  EXPECT_NE(error_of([&] { (void)open("empty"); }).find("has no arrays"), std::string::npos);
}

TEST_F(Npy, ReadsHeadersStrictly) {
  const std::string data(8, '\1');
  const auto of = [&](const std::string& dictionary) { return error(npy_header_text(1, dictionary) + data); };
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }"), "");
  EXPECT_EQ(of("{\"shape\": (2), 'fortran_order':False,'descr':'<f4'}"), "");
  EXPECT_EQ(error(npy_header_text(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }") + data), "");
  EXPECT_EQ(error(npy_header_text(3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }") + data), "");
  EXPECT_NE(error(npy_header_text(4, "{}") + data).find("version 4.0"), std::string::npos);
  EXPECT_EQ(of("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }"),
            "one/x.npy: its dtype '>f4' is big-endian (save array.astype('<f4'))");
  EXPECT_EQ(of("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }"),
            "one/x.npy: its elements are in Fortran order (save numpy.ascontiguousarray(array))");
  EXPECT_NE(of("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }").find("pickled"), std::string::npos);
  EXPECT_NE(of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }").find("structured"),
            std::string::npos);
  EXPECT_EQ(of("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }"),
            "one/x.npy: its dtype '<f2' is not read (save array.astype(np.float32))");
  EXPECT_NE(of("{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }").find("astype(np.int64)"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }").find("'<c8' is not read"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': False, 'shape': (), }").find("a single value"), std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0), }").find("empty"), std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }")
                .find("truncated: 8 bytes of elements where <f4 [3] has 12"),
            std::string::npos);
  EXPECT_NE(of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }").find("too long"), std::string::npos);
  for (const char* broken :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "{'descr': '<f4", "{", "", "[]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x"})
    EXPECT_NE(of(broken).find("damaged"), std::string::npos) << broken;
  EXPECT_NE(error("PK\3\4").find("no .npy array"), std::string::npos);
  EXPECT_NE(error("").find("no .npy array"), std::string::npos);
}

TEST_F(Npy, RefusesDamagedZipFiles) {
  const Members members = {{"x", npy_of<float>("<f4", {2}, {1, 2})}, {"y", npy_of<std::int64_t>("<i8", {2}, {0, 1})}};
  const auto refused = [&](const std::string& content) {
    write_text(folder_.path() / "a.npz", content);
    return error_of([&] { (void)open("a.npz"); });
  };
  EXPECT_NE(
      refused(npz_of(members, {.deflated = true, .check_sum = 1})).find("the check sum of its member 'x.npy' differs"),
      std::string::npos);
  EXPECT_NE(refused(npz_of({members[0], members[0]}, {})).find("it has two members 'x.npy'"), std::string::npos);
  EXPECT_NE(refused(npz_of(members, {.flags = 1})).find("encrypted"), std::string::npos);
  EXPECT_NE(refused(npz_of(members, {.method = 12})).find("compressed by method 12"), std::string::npos);
  EXPECT_NE(refused("no zip file, but long enough to be one").find("it has no directory"), std::string::npos);
  for (const bool deflated : {false, true}) {
    const std::string whole = npz_of(members, {.deflated = deflated});
    EXPECT_EQ(refused(whole), "");
    for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refused(whole.substr(0, size)), "") << size;
    for (std::size_t bit = 0; bit < 8 * whole.size(); bit += 5) {  // read or refused, nothing else
      std::string flipped = whole;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
      (void)refused(flipped);
    }
  }
}

TEST_F(Npy, TruncatedAtEveryByteItIsRefused) {
  const std::string whole = npy_of<float>("<f4", {2}, {1, 2});
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(error(whole.substr(0, size)), "") << size;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    (void)error(flipped);
  }
}

}  // namespace
}  // namespace isobit::samples
