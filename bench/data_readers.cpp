// How long training data takes to open and to read, and how much memory, per format: no torch.
//
//   ninja -C build/release data_readers && build/release/bench/data_readers FOLDER SAMPLES
//
// Writes its files into FOLDER (idx: 784 bytes a sample; csv: ten columns; images: 1 in 1000 of the samples, 64x64 RGB)
// where they are missing, then prints a line per format. The files are in the system's cache when they are read.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "contract/philox.h"
#include "samples/image_files.h"
#include "samples/source.h"
#include "samples/split.h"

namespace {

namespace fs = std::filesystem;
using namespace isobit::samples;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Of this process, what is not in the files' own pages: MB.
double memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    double kilobytes = 0;
    status >> kilobytes;
    return kilobytes / 1000;
  }
  return 0;
}

std::uint32_t word(std::int64_t n) { return isobit::contract::random_word(1, static_cast<std::uint64_t>(n)); }

void write_idx(const fs::path& images, const fs::path& labels, std::int64_t count) {
  std::ofstream image_file(images, std::ios::binary), label_file(labels, std::ios::binary);
  const auto put = [](std::ofstream& file, const Bytes& bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  put(image_file, idx_bytes({static_cast<std::uint32_t>(count), 28, 28}, {}));
  put(label_file, idx_bytes({static_cast<std::uint32_t>(count)}, {}));
  Bytes pixels(784);
  for (std::int64_t i = 0; i < count; ++i) {
    pixels[static_cast<std::size_t>(i % 784)] = static_cast<std::uint8_t>(i);
    put(image_file, pixels);
    label_file.put(static_cast<char>(i % 10));
  }
}

void write_csv(const fs::path& path, std::int64_t count) {
  std::ofstream file(path, std::ios::binary);
  file << "a,b,c,d,e,f,g,h,i,j,subject,label\n";
  for (std::int64_t row = 0; row < count; ++row) {
    std::string line;
    for (std::int64_t i = 0; i < 10; ++i) line += fmt::format("{:.6f},", word(row * 10 + i) / 4294967296.0 - 0.5);
    file << line << 's' << row % 1000 << ',' << row % 10 << '\n';
  }
}

void write_images(const fs::path& folder, std::int64_t count, bool png) {
  Bytes values(64 * 64 * 3);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t v = 0; v < values.size(); ++v)
      values[v] = static_cast<std::uint8_t>(v / 48 + static_cast<std::size_t>(i) +
                                            word(i * 12288 + static_cast<std::int64_t>(v)) % 32);
    write_text(folder / std::to_string(i % 10) / (std::to_string(i) + (png ? ".png" : ".jpg")),
               png ? png_of(64, 64, values) : jpeg_of(64, 64, values));
  }
}

void measure(const char* name, const Source& source, std::int64_t most) {
  const double before = memory();
  auto begin = Clock::now();
  const auto samples = open_source(source);
  const double opened = seconds_since(begin), held = memory() - before;
  const std::int64_t count = samples->count(), reads = std::min(count, most);
  begin = Clock::now();
  std::vector<std::byte> out(256 * samples->fields()[0].bytes());
  std::vector<std::int64_t> ids(256);
  for (std::int64_t done = 0; done + 256 <= reads; done += 256) {
    for (std::int64_t& id : ids)
      id = static_cast<std::int64_t>(word(done + (&id - ids.data())) % static_cast<std::uint64_t>(count));
    samples->read(0, ids, out.data());
  }
  const double read = seconds_since(begin);
  fmt::print("{:5} {:9} samples: open {:8.4f} s ({:.3g} samples/s), {:7.1f} MB held; {:.3g} samples/s read at random\n",
             name, count, opened, static_cast<double>(count) / opened, held, static_cast<double>(reads) / read);
}

void measure_split(const Source& source) {
  const auto samples = open_source(source);
  const auto begin = Clock::now();
  const SplitSettings settings{"random", 5, 0, true};
  const Split split = make_split(*samples, settings, 1);
  fmt::print("split {:9} samples: {:.2f} s; {}\n", samples->count(), seconds_since(begin), split_text(split, settings));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: data_readers FOLDER SAMPLES\n");
    return 2;
  }
  const fs::path folder = argv[1];
  const std::int64_t count = std::stoll(argv[2]), images = std::max<std::int64_t>(256, count / 1000);
  fs::create_directories(folder);
  if (!fs::exists(folder / "labels")) write_idx(folder / "images", folder / "labels", count);
  if (!fs::exists(folder / "table.csv")) write_csv(folder / "table.csv", count);
  if (!fs::exists(folder / "png")) write_images(folder / "png", images, true);
  if (!fs::exists(folder / "jpeg")) write_images(folder / "jpeg", images, false);

  Source source;
  source.folder = folder;
  source.file = "images";
  source.labels = "labels";
  measure("idx", source, 1'000'000);
  source.labels.clear();
  source.format = "images";
  source.file = "png";
  measure("png", source, images);
  source.file = "jpeg";
  measure("jpeg", source, images);
  source.format = "csv";
  source.file = "table.csv";
  source.group = "subject";
  measure("csv", source, 1'000'000);
  measure_split(source);
  return 0;
}
