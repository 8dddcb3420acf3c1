// SHA-256 (FIPS 180-4) by OpenSSL, as 64 lower-case hex digits.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace isobit::archive {

// Fed piece by piece; one thread per object.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256& other);
  Sha256& operator=(const Sha256& other);
  Sha256(Sha256&&) noexcept = default;
  Sha256& operator=(Sha256&&) noexcept = default;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  // Of everything so far; more may follow.
  [[nodiscard]] std::string hex() const;

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;
};

[[nodiscard]] std::string sha256(std::string_view text);

// Whether the text is so many lower-case hexadecimal digits.
[[nodiscard]] inline bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct FileDigest {
  std::uint64_t size = 0;
  std::string sha256;
};
// Reads the file in pieces. UserError where it is missing, no regular file, or not readable.
[[nodiscard]] FileDigest digest_file(const std::filesystem::path& path);

}  // namespace isobit::archive
