#include "train/idx_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "archive/user_error.h"

namespace isobit::train {
namespace {

using archive::UserError;

constexpr const char* kRemedy = "restore the file, or set data.path (Debian: apt install dataset-fashion-mnist)";

constexpr std::uint64_t kDeflateRatio = 1032;  // no more is possible

// A plain or gzip file read from front to back; zlib passes plain files through.
class Source {
 public:
  explicit Source(const std::string& path) : path_(path) {
    std::error_code error;  // where there is one, the file cannot be opened
    if (!std::filesystem::is_regular_file(path, error)) {
      throw UserError(path, std::filesystem::exists(path, error) ? "not a data file" : "data file missing", kRemedy);
    }
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (!error) most_ = std::min<std::uintmax_t>(size, std::uintmax_t{1} << 50) * kDeflateRatio + kDeflateRatio;
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) throw UserError(path, fmt::format("cannot be opened: {}", std::strerror(errno)), kRemedy);
    gzbuffer(file_, 1 << 18);
  }
  ~Source() { gzclose(file_); }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // How many bytes can come out at most.
  [[nodiscard]] std::uint64_t most() const { return most_; }

  // Bytes read: fewer than asked at the end of the data.
  std::size_t read(std::uint8_t* out, std::size_t n) {
    std::size_t done = 0;
    while (done < n) {
      const auto part = static_cast<unsigned>(std::min<std::size_t>(n - done, 1 << 30));
      const int got = gzread(file_, out + done, part);
      if (got < 0) damaged();
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    int code = Z_OK;
    gzerror(file_, &code);
    if (code == Z_BUF_ERROR) throw UserError(path_, "truncated: its compressed data ends early", kRemedy);
    if (code != Z_OK) damaged();
    return done;
  }

 private:
  [[noreturn]] void damaged() {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    throw UserError(path_, fmt::format("damaged: {}", code == Z_ERRNO ? std::strerror(errno) : text), kRemedy);
  }

  std::string path_;
  std::uint64_t most_ = 0;
  gzFile file_ = nullptr;
};

struct IdxArray {
  std::vector<std::int64_t> dims;
  std::vector<std::uint8_t> bytes;
};

IdxArray read_idx(const std::string& path, int rank, const char* content) {
  Source source(path);
  std::uint8_t head[4] = {};
  const std::size_t got = source.read(head, 4);
  if (got < 4)
    throw UserError(path, fmt::format("truncated: it has {} bytes, an IDX file starts with 4", got), kRemedy);
  if (head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != rank) {
    throw UserError(path,
                    fmt::format("wrong magic number 0x{:02x}{:02x}{:02x}{:02x}: {} have 0x000008{:02x}", head[0],
                                head[1], head[2], head[3], content, rank),
                    kRemedy);
  }
  IdxArray array;
  std::size_t total = 1;
  for (int d = 0; d < rank; ++d) {
    std::uint8_t size[4] = {};
    if (source.read(size, 4) < 4) throw UserError(path, "truncated within its header", kRemedy);
    array.dims.push_back(std::int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
    const auto dim = static_cast<std::size_t>(array.dims.back());
    if (dim == 0) throw UserError(path, "empty: one of its dimensions is 0", kRemedy);
    if (dim > (std::size_t{1} << 40) / total)
      throw UserError(path, "damaged: its header claims more than 2^40 elements", kRemedy);
    total *= dim;
  }
  if (total > source.most())
    throw UserError(
        path,
        fmt::format("truncated: its header claims {} bytes of {}, more than such a file can hold", total, content),
        kRemedy);
  // Grown as data comes, so that a false header cannot ask for memory that the file does not fill.
  for (std::size_t done = 0; done < total;) {
    const std::size_t part = std::min<std::size_t>(total - done, 1 << 24);
    array.bytes.resize(done + part);
    const std::size_t read = source.read(array.bytes.data() + done, part);
    done += read;
    if (read < part) {
      throw UserError(path, fmt::format("truncated: {} of {} {} bytes", done, total, content), kRemedy);
    }
  }
  std::uint8_t extra = 0;
  if (source.read(&extra, 1) != 0)
    throw UserError(path, fmt::format("longer than the {} bytes its header claims", total), kRemedy);
  return array;
}

void expect_classes(const std::string& path, const std::vector<std::uint8_t>& labels, std::size_t per_sample,
                    std::int64_t classes) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < classes) continue;
    throw UserError(path,
                    fmt::format("label {} of sample {} is out of range 0..{}", labels[i], i / per_sample, classes - 1),
                    "correct the file, or raise model.classes");
  }
}

}  // namespace

IdxImages read_idx_images(const std::string& path) {
  IdxArray array = read_idx(path, 3, "images");
  return {array.dims[0], array.dims[1], array.dims[2], std::move(array.bytes)};
}

IdxImages read_idx_masks(const std::string& path, std::int64_t classes) {
  IdxArray array = read_idx(path, 3, "masks");
  expect_classes(path, array.bytes, static_cast<std::size_t>(array.dims[1] * array.dims[2]), classes);
  return {array.dims[0], array.dims[1], array.dims[2], std::move(array.bytes)};
}

std::vector<std::uint8_t> read_idx_labels(const std::string& path, std::int64_t classes) {
  IdxArray array = read_idx(path, 1, "labels");
  expect_classes(path, array.bytes, 1, classes);
  return std::move(array.bytes);
}

}  // namespace isobit::train
