// Readers of a file. What stands behind a check sum is also tried with the check sum that it then has.
#include <sqlite3.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>

#include "archive/checkpoint_compare.h"
#include "archive/environment.h"
#include "archive/files.h"
#include "archive/output_file.h"
#include "archive/run_index.h"
#include "archive/safetensors.h"
#include "archive/tar_file.h"
#include "archive/tuning_file.h"
#include "archive/weights_digest.h"
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "samples/idx_reader.h"

namespace isobit::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace archive;

std::string little_endian(std::uint64_t number, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(number >> 8 * i & 0xff);
  return bytes;
}

std::string big_endian(std::uint32_t number) {
  std::string bytes = little_endian(number, 4);
  return {bytes.rbegin(), bytes.rend()};
}

}  // namespace

// ---- The tuning table

// "CPU" in it is this machine's name, so that the table counts.
void run_tuning(std::string_view input) {
  const fs::path file = scratch() / "tuning.json";
  std::string text(input);
  if (const auto at = text.find("CPU"); at != std::string::npos) text.replace(at, 3, cpu_name());
  put(file, text);
  ::setenv("ISOBIT_TUNING", file.c_str(), 1);
  accepts([&] {
    if (!load_tuning()) return;
    const kernels::Tuning tuning = kernels::tuning();
    for (const kernels::TuningKey& key : kernels::tuning_keys())
      require(tuning.*key.member >= key.least && tuning.*key.member <= key.most,
              std::string(key.name) + " is in range");
    write_tuning(file, tuning);
    require(accepts([&] { require(load_tuning() && kernels::tuning() == tuning, "a table that is written is read"); }),
            "a table that is written is read");
  });
}

std::vector<std::string> tuning_seeds() {
  return {R"({"format": 1, "cpu": "CPU", "sizes": {"product_rows": 96, "pack_positions": 0}})",
          R"({"format": 1, "cpu": "other", "sizes": {"slab_floats": 81920}})", R"({"format": 2})"};
}

// ---- IDX: the first byte says what it is, and whether it is compressed after it was altered

void run_idx(std::string_view input) {
  if (input.empty()) return;
  const fs::path file = scratch() / "data-idx";
  const std::string_view content = input.substr(1);
  const int kind = input[0] & 3;
  if ((input[0] & 4) != 0) {
    gzFile compressed = gzopen(file.c_str(), "wb1");
    if (!content.empty()) gzwrite(compressed, content.data(), static_cast<unsigned>(content.size()));
    gzclose(compressed);
  } else {
    put(file, content);
  }
  accepts([&] {
    if (kind == 0) {
      for (const std::uint8_t label : samples::read_idx_labels(file, 10)) require(label < 10, "labels are in range");
      return;
    }
    const samples::IdxImages images = kind == 1 ? samples::read_idx_images(file) : samples::read_idx_masks(file, 3);
    require(images.count > 0 && images.height > 0 && images.width > 0, "images have a size");
    require(images.pixels.size() == static_cast<std::size_t>(images.count * images.height * images.width),
            "all pixels");
    for (const std::uint8_t pixel : images.pixels) require(kind == 1 || pixel < 3, "masks are in range");
  });
}

std::vector<std::string> idx_seeds() {
  const std::string images =
      std::string("\0\0\x08\3", 4) + big_endian(2) + big_endian(3) + big_endian(2) + std::string(12, 2);
  const std::string labels = std::string("\0\0\x08\1", 4) + big_endian(4) + std::string("\0\1\2\t", 4);
  run_idx("4" + labels);  // compresses it
  const std::string packed = read_file(scratch() / "data-idx");
  return {"0" + labels, "4" + labels, "1" + images, "5" + images,
          "2" + images, "6" + images, "0" + packed, "1" + packed};
}

// ---- Safetensors: as it is, and with the header's length that its text has

void run_safetensors(std::string_view input) {
  const auto read = [](std::string_view content) {
    const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
    accepts([&] {
      const Safetensors file = Safetensors::parse({bytes.begin(), bytes.end()}, "file");
      std::string again = safetensors_header(file.tensors(), file.metadata());
      for (const TensorView& tensor : file.tensors()) {
        again.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
        require(file.find(tensor.name) != nullptr, "a tensor is found by its name");
      }
      const auto written = std::as_bytes(std::span(again));
      const Safetensors second = Safetensors::parse({written.begin(), written.end()}, "written");
      require(second.metadata() == file.metadata() && second.tensors().size() == file.tensors().size(),
              "what is read can be written");
      require(weights_sha256(second.tensors()) == weights_sha256(file.tensors()), "the same weights");
    });
  };
  read(input);
  const auto end = input.rfind("}}");
  if (input.size() < 8 || end == std::string_view::npos || end < 8) return;
  read(little_endian(end + 2 - 8, 8) + std::string(input.substr(8)));
}

std::vector<std::string> safetensors_seeds() {
  const std::vector<float> weight(6, 0.25f);
  const std::vector<std::int64_t> count(1, 3);
  const std::vector<TensorView> tensors = {{"weight", "F32", {2, 3}, std::as_bytes(std::span(weight))},
                                           {"count", "I64", {}, std::as_bytes(std::span(count))},
                                           {"none", "BF16", {0, 7}, {}}};
  std::string file = safetensors_header(tensors, {{"state", "{\"step\": 3}"}});
  for (const TensorView& tensor : tensors)
    file.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return {file, safetensors_header({}, {}), safetensors_header({}, {{"a", "b"}})};
}

// ---- Tar: as it is, and with the check sums that its headers have

void make_sums(std::string& tar) {
  constexpr std::size_t kBlock = 512;
  for (std::size_t at = 0; at + kBlock <= tar.size();) {
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(at + 148), 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[at + i]);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum & 0777777);
    tar.replace(at + 148, 7, std::string(text, 7));
    const std::uint64_t size = std::strtoull(tar.substr(at + 124, 11).c_str(), nullptr, 8);
    at += kBlock + (size > tar.size() ? tar.size() : (size + kBlock - 1) / kBlock * kBlock);
  }
}

namespace {

void unpack(std::string_view content) {
  const fs::path file = scratch() / "in.tar", folder = scratch() / "unpacked";
  put(file, content);
  fs::remove_all(folder);
  fs::create_directories(folder);
  accepts([&] {
    const std::string top = unpack_tar(file, folder);
    require(fs::is_directory(folder / top) && fs::path(top).filename() == top && top[0] != '.', "one folder");
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      require(!entry.is_symlink() && (entry.is_directory() || entry.is_regular_file()), "regular files alone");
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    require(bytes <= content.size(), "no more comes out than is in it");
  });
}

}  // namespace

void run_tar(std::string_view input) {
  unpack(input);
  std::string summed(input);
  make_sums(summed);
  unpack(summed);
}

std::vector<std::string> tar_seeds() {
  const auto written = [](const std::vector<TarEntry>& entries) {
    const fs::path file = scratch() / "out.tar";
    fs::remove(file);
    OutputFile out(file);
    write_tar(out, entries);
    out.commit();
    return read_file(file);
  };
  const std::string longest = "run/" + std::string(150, 'n');
  return {written({{"run/manifest.json", "{}\n", {}}, {"run/checkpoints/step-1.pt", std::string(600, 'x'), {}}}),
          written({{longest, "", {}}}), written({{"run/a", "b", {}}, {"other/a", "b", {}}})};
}

// ---- Zip files of torch.save: two bytes say where the second file begins

namespace {

std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members, bool large) {
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const std::string sizes = large ? little_endian(0xffffffff, 4) + little_endian(0xffffffff, 4)
                                    : little_endian(data.size(), 4) + little_endian(data.size(), 4);
    const std::string extra = large ? little_endian(1, 2) + little_endian(24, 2) + little_endian(data.size(), 8) +
                                          little_endian(data.size(), 8) + little_endian(file.size(), 8)
                                    : "";
    directory += "PK\1\2" + std::string(6, '\0') + std::string(10, '\0') + sizes + little_endian(name.size(), 2) +
                 little_endian(extra.size(), 2) + std::string(10, '\0') +
                 little_endian(large ? 0xffffffff : file.size(), 4) + name + extra;
    file +=
        "PK\3\4" + std::string(14, '\0') + sizes + little_endian(name.size(), 2) + little_endian(0, 2) + name + data;
  }
  const std::uint64_t at = file.size();
  file += directory;
  if (large) {
    const std::uint64_t record = file.size();
    file += "PK\6\6" + little_endian(44, 8) + std::string(12, '\0') + little_endian(members.size(), 8) +
            little_endian(members.size(), 8) + little_endian(directory.size(), 8) + little_endian(at, 8);
    file += "PK\6\7" + little_endian(0, 4) + little_endian(record, 8) + little_endian(1, 4);
  }
  return file + "PK\5\6" + std::string(4, '\0') + little_endian(members.size(), 2) +
         little_endian(large ? 0xffff : members.size(), 2) + little_endian(directory.size(), 4) +
         little_endian(large ? 0xffffffff : at, 4) + little_endian(0, 2);
}

// Members that are all the same bytes, as often as there is room for names: quick to read, long to compare.
std::string overlapping() {
  const std::string data(60'000, 'x');
  std::vector<std::pair<std::string, std::string>> one = {{"a", data}};
  const std::string file = zip_of(one, false);
  std::string entry = file.substr(file.find("PK\1\2"), 46), all = file.substr(0, file.find("PK\1\2"));
  const std::size_t at = all.size(), count = 20'000;
  entry[28] = 5;  // the name's length
  for (std::size_t i = 0; i < count; ++i) all += entry + std::to_string(10'000 + i);
  return all + "PK\5\6" + std::string(4, '\0') + little_endian(count, 2) + little_endian(count, 2) +
         little_endian(0, 4) + little_endian(at, 4) + little_endian(0, 2);
}

std::string pair_of(const std::string& a, const std::string& b) { return little_endian(a.size(), 2) + a + b; }

}  // namespace

void run_zip(std::string_view input) {
  if (input.size() < 2) return;
  const fs::path first = scratch() / "first.pt", second = scratch() / "second.pt";
  const std::size_t middle = std::min<std::size_t>(
      static_cast<unsigned char>(input[0]) + 256u * static_cast<unsigned char>(input[1]), input.size() - 2);
  put(first, input.substr(2, middle));
  put(second, input.substr(2 + middle));
  if (middle == 0) put(first, std::string(input.substr(2)) + '\0');  // the same members in another file
  accepts([&] {
    const std::string other = different_part(first, second), back = different_part(second, first);
    require(other.empty() == back.empty(), "what differs differs both ways");
    require(different_part(first, first).empty() && different_part(second, second).empty(), "a file is itself");
  });
}

std::vector<std::string> zip_seeds() {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"a/data.pkl", "pickle"}, {"a/data/0", "12345678"}, {"a/version", "3\n"}};
  auto other = members;
  other[2].second = "4\n";
  return {pair_of(zip_of(members, false), zip_of(other, false)), pair_of(zip_of(members, true), zip_of(other, true)),
          pair_of(zip_of(members, false), zip_of({{"a/data.pkl", "other"}}, true)), pair_of("abc", "abd"),
          pair_of("", overlapping())};
}

// ---- Rows of the index: a summary with the check sum that it has; behind a zero byte, the whole database's file

namespace {

const fs::path& index_file() {
  static const fs::path file = scratch() / "index.sqlite";
  return file;
}

sqlite3* open_index() {
  sqlite3* raw = nullptr;
  sqlite3_open(index_file().c_str(), &raw);
  sqlite3_exec(raw, "PRAGMA synchronous=OFF; PRAGMA journal_mode=MEMORY", nullptr, nullptr, nullptr);
  return raw;
}

void put_row(sqlite3* database, const std::string& archive, const std::string& summary) {
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(database, "INSERT OR REPLACE INTO runs VALUES (?, 'id', 'stamp', ?, ?)", -1, &insert, nullptr);
  sqlite3_bind_text(insert, 1, archive.c_str(), -1, SQLITE_TRANSIENT);
  sqlite3_bind_text(insert, 2, summary.c_str(), static_cast<int>(summary.size()), SQLITE_TRANSIENT);
  sqlite3_bind_int64(insert, 3, row_check_sum("id", "stamp", summary));
  sqlite3_step(insert);
  sqlite3_finalize(insert);
}

void look_up(RunIndex& index) {
  const auto summary = index.find("id", "stamp");
  if (!summary) return;
  require(summary->state >= RunState::running && summary->state <= RunState::damaged, "a state is one of five");
  index.put("again", "stamp", *summary);
}

}  // namespace

void run_run_index(std::string_view input) {
  if (!input.empty() && input[0] == '\0') {
    const fs::path file = scratch() / "strange.sqlite";
    put(file, input.substr(1));
    RunIndex index(file, scratch());
    return look_up(index);
  }
  static RunIndex index(index_file(), scratch());
  static sqlite3* const database = open_index();
  put_row(database, fs::weakly_canonical(scratch()).string(), std::string(input));
  look_up(index);
}

std::vector<std::string> run_index_seeds() {
  const fs::path file = scratch() / "seed.sqlite";
  RunSummary summary{"id",
                     "small",
                     RunState::finished,
                     "isobit-0.1",
                     "2026-11-21T04:58:35.123456Z",
                     8,
                     "isobit-0.1:00",
                     "aa",
                     {{8, 2, "test", {{"accuracy", 0.5}, {"loss", 1.0 / 0.0}, {"nan", 0.0 / 0.0}}}},
                     "note"};
  RunIndex(file, scratch()).put("id", "stamp", summary);
  sqlite3* database = nullptr;
  sqlite3_stmt* select = nullptr;
  sqlite3_open(file.c_str(), &database);
  sqlite3_prepare_v2(database, "SELECT summary FROM runs", -1, &select, nullptr);
  std::vector<std::string> seeds;
  if (sqlite3_step(select) == SQLITE_ROW)
    seeds.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(select, 0)));
  sqlite3_finalize(select);
  sqlite3_close(database);
  // "1:31:8": the state, then the steps; numbers and lengths that are none, too large, or beyond the text.
  const std::string sound = seeds.at(0);
  const std::size_t state = sound.find("1:31:8");
  require(state != sound.npos, "where the seed's state stands");
  for (const char* other : {"2:771:8", "2:-11:8", "5:1e3001:8", "1:320:99999999999999999999",
                            "1:399999999999999999999:8", "1:318446744073709551615:8", "1:3-1:8", "1:3:8", "1:38"})
    seeds.push_back(std::string(sound).replace(state, 6, other));
  seeds.push_back(sound + "4:test1:81:219:9223372036854775807");  // so many values
  return seeds;
}

}  // namespace isobit::fuzz
