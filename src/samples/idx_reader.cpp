#include "samples/idx_reader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <span>

#include "archive/user_error.h"

namespace isobit::samples {
namespace {

using archive::UserError;

constexpr const char* kIdxRemedy = "restore the file, or set data.path (Debian: apt install dataset-fashion-mnist)";

constexpr std::uint64_t kDeflateRatio = 1032;  // no more is possible

// A file's bytes from front to back.
class Bytes {
 public:
  virtual ~Bytes() = default;
  // Bytes read: fewer than asked at the end of the data.
  virtual std::size_t read(std::uint8_t* out, std::size_t n) = 0;
  // How many bytes can come out at most.
  [[nodiscard]] virtual std::uint64_t most() const = 0;
};

class MappedBytes : public Bytes {
 public:
  explicit MappedBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t read(std::uint8_t* out, std::size_t n) override {
    n = std::min(n, bytes_.size() - at_);
    if (n > 0) std::memcpy(out, bytes_.data() + at_, n);
    at_ += n;
    return n;
  }
  std::uint64_t most() const override { return std::numeric_limits<std::uint64_t>::max(); }
  std::span<const std::byte> rest() const { return bytes_.subspan(at_); }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

class GzipBytes : public Bytes {
 public:
  GzipBytes(const std::string& path, std::uint64_t size) : path_(path) {
    most_ = std::min(size, std::uint64_t{1} << 50) * kDeflateRatio + kDeflateRatio;
    file_ = gzopen(path.c_str(), "rb");
    if (file_ == nullptr) throw UserError(path, fmt::format("cannot be opened: {}", std::strerror(errno)), kIdxRemedy);
    gzbuffer(file_, 1 << 18);
  }
  ~GzipBytes() override { gzclose(file_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::uint64_t most() const override { return most_; }
  std::size_t read(std::uint8_t* out, std::size_t n) override {
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
    if (code == Z_BUF_ERROR) throw UserError(path_, "truncated: its compressed data ends early", kIdxRemedy);
    if (code != Z_OK) damaged();
    return done;
  }

 private:
  [[noreturn]] void damaged() {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    throw UserError(path_, fmt::format("damaged: {}", code == Z_ERRNO ? std::strerror(errno) : text), kIdxRemedy);
  }

  std::string path_;
  std::uint64_t most_ = 0;
  gzFile file_ = nullptr;
};

// The sizes that the header claims.
std::vector<std::int64_t> read_header(Bytes& bytes, const std::string& path, int rank, const std::string& content) {
  std::uint8_t head[4] = {};
  const std::size_t got = bytes.read(head, 4);
  if (got < 4)
    throw UserError(path, fmt::format("truncated: it has {} bytes, an IDX file starts with 4", got), kIdxRemedy);
  if (head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] != rank) {
    throw UserError(path,
                    fmt::format("wrong magic number 0x{:02x}{:02x}{:02x}{:02x}: {} have 0x000008{:02x}", head[0],
                                head[1], head[2], head[3], content, rank),
                    kIdxRemedy);
  }
  std::vector<std::int64_t> dims;
  std::size_t total = 1;
  for (int d = 0; d < rank; ++d) {
    std::uint8_t size[4] = {};
    if (bytes.read(size, 4) < 4) throw UserError(path, "truncated within its header", kIdxRemedy);
    dims.push_back(std::int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
    const auto dim = static_cast<std::size_t>(dims.back());
    if (dim == 0) throw UserError(path, "empty: one of its dimensions is 0", kIdxRemedy);
    if (dim > (std::size_t{1} << 40) / total)
      throw UserError(path, "damaged: its header claims more than 2^40 elements", kIdxRemedy);
    total *= dim;
  }
  if (total > bytes.most())
    throw UserError(
        path,
        fmt::format("truncated: its header claims {} bytes of {}, more than such a file can hold", total, content),
        kIdxRemedy);
  return dims;
}

[[noreturn]] void truncated(const std::string& path, std::size_t done, std::size_t total, const std::string& content) {
  throw UserError(path, fmt::format("truncated: {} of {} {} bytes", done, total, content), kIdxRemedy);
}
[[noreturn]] void too_long(const std::string& path, std::size_t total) {
  throw UserError(path, fmt::format("longer than the {} bytes its header claims", total), kIdxRemedy);
}

std::size_t product(const std::vector<std::int64_t>& dims) {
  std::size_t total = 1;
  for (const std::int64_t dim : dims) total *= static_cast<std::size_t>(dim);
  return total;
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

IdxFile::IdxFile(const std::string& path, int rank, const std::string& content)
    : mapped_(std::make_unique<MappedFile>(path, kIdxRemedy)) {
  const auto bytes = mapped_->bytes();
  const bool gzip = bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
  if (!gzip) {
    MappedBytes source(bytes);
    dims_ = read_header(source, path, rank, content);
    size_ = product(dims_);
    const auto rest = source.rest();
    if (rest.size() < size_) truncated(path, rest.size(), size_, content);
    if (rest.size() > size_) too_long(path, size_);
    elements_ = reinterpret_cast<const std::uint8_t*>(rest.data());
    return;
  }
  GzipBytes source(path, bytes.size());
  mapped_.reset();
  dims_ = read_header(source, path, rank, content);
  size_ = product(dims_);
  // Grown as data comes, so that a false header cannot ask for memory that the file does not fill.
  for (std::size_t done = 0; done < size_;) {
    const std::size_t part = std::min<std::size_t>(size_ - done, 1 << 24);
    inflated_.resize(done + part);
    const std::size_t read = source.read(inflated_.data() + done, part);
    done += read;
    if (read < part) truncated(path, done, size_, content);
  }
  std::uint8_t extra = 0;
  if (source.read(&extra, 1) != 0) too_long(path, size_);
  elements_ = inflated_.data();
}

void IdxFile::check_unchanged() const {
  if (mapped_) mapped_->check_unchanged();
}

IdxImages read_idx_images(const std::string& path) {
  const IdxFile file(path, 3, "images");
  return {file.dims()[0], file.dims()[1], file.dims()[2], {file.elements(), file.elements() + file.size()}};
}

IdxImages read_idx_masks(const std::string& path, std::int64_t classes) {
  const IdxFile file(path, 3, "masks");
  IdxImages masks{file.dims()[0], file.dims()[1], file.dims()[2], {file.elements(), file.elements() + file.size()}};
  expect_classes(path, masks.pixels, static_cast<std::size_t>(masks.height * masks.width), classes);
  return masks;
}

std::vector<std::uint8_t> read_idx_labels(const std::string& path, std::int64_t classes) {
  const IdxFile file(path, 1, "labels");
  std::vector<std::uint8_t> labels(file.elements(), file.elements() + file.size());
  expect_classes(path, labels, 1, classes);
  return labels;
}

}  // namespace isobit::samples
