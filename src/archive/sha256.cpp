#include "archive/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include "archive/files.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

EVP_MD_CTX* raw(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void require(int ok) {
  if (ok != 1) throw std::runtime_error("OpenSSL refused SHA-256");
}

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(raw(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require(EVP_DigestInit_ex(raw(context_.get()), EVP_sha256(), nullptr));
}

Sha256::Sha256(const Sha256& other) : context_(EVP_MD_CTX_new()) {
  require(EVP_MD_CTX_copy_ex(raw(context_.get()), raw(other.context_.get())));
}

Sha256& Sha256::operator=(const Sha256& other) {
  require(EVP_MD_CTX_copy_ex(raw(context_.get()), raw(other.context_.get())));
  return *this;
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(raw(context_.get()), bytes.data(), bytes.size()));
}

std::string Sha256::hex() const {
  const Sha256 copy(*this);
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(raw(copy.context_.get()), digest.data(), nullptr));
  std::string text;
  for (const unsigned char byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

FileDigest digest_file(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw_file_error(path, "cannot be read", errno);
  const struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{file};
  struct stat status {};
  if (::fstat(file, &status) != 0) throw_file_error(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) throw UserError(path.string(), "not a regular file", "");
  Sha256 hash;
  FileDigest digest;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::clamp<off_t>(status.st_size, 4096, 1 << 20)));
  for (;;) {
    const std::ptrdiff_t n = read_some(file, buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_file_error(path, "cannot be read", errno);
    if (n == 0) break;
    hash.update(std::span(buffer).first(static_cast<std::size_t>(n)));
    digest.size += static_cast<std::uint64_t>(n);
  }
  digest.sha256 = hash.hex();
  return digest;
}

}  // namespace isobit::archive
