#include "scale/job_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cstdlib>
#include <stdexcept>

#include "archive/files.h"
#include "archive/sha256.h"
#include "archive/user_error.h"

namespace isobit::scale {
namespace {

constexpr std::size_t kDigits = 64;
constexpr const char* kForm = "let it hold 64 hexadecimal digits (openssl rand -hex 32), readable by its owner alone";

std::string checked(std::string text, const std::string& place) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (!archive::is_hex(text, kDigits)) throw archive::UserError(place, "holds no key of a job", kForm);
  return text;
}

}  // namespace

void fill_random(std::span<std::uint8_t> bytes) {
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("the system gives no random bytes");
}

std::string make_key() {
  std::array<std::uint8_t, kDigits / 2> bytes{};
  fill_random(bytes);
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string find_job_key(const std::filesystem::path& file) {
  if (!file.empty()) {
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
      throw archive::UserError(file.string(), "can be read by others than its owner", "chmod 600 " + file.string());
    return checked(archive::read_file(file, 1 << 12), file.string());
  }
  if (const char* value = std::getenv(kKeyVariable)) return checked(value, kKeyVariable);
  throw archive::UserError("--join", "the key of the job is missing",
                           std::string("name its file with --key-file, or set ") + kKeyVariable);
}

Mac mac(std::string_view key, std::span<const std::uint8_t> text) {
  Mac result{};
  unsigned length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(), result.data(), &length) ==
          nullptr ||
      length != result.size())
    throw std::runtime_error("OpenSSL gives no HMAC-SHA256");
  return result;
}

bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace isobit::scale
