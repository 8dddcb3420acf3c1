// Changes that readers trip over more often than over random bytes: extreme numbers, deep nesting, cut and doubled
// parts.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "fuzz/target.h"

namespace isobit::fuzz {
namespace {

constexpr const char* kNumbers[] = {"0",
                                    "-1",
                                    "1e300",
                                    "-1e300",
                                    "1e999",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "-0.0",
                                    "true",
                                    "null",
                                    "0.5",
                                    "[]",
                                    "18446744073709551615",
                                    "\"\"",
                                    "1e19",
                                    "{}",
                                    "\"nan\"",
                                    "4294967297",
                                    "00",
                                    "1E2"};
constexpr const char* kPieces[] = {"\"",
                                   "\\",
                                   "\n",
                                   "\r",
                                   "\t",
                                   "\xff",
                                   "\x01",
                                   "{\"a\":",
                                   "[[[[[[[[",
                                   "]]]]",
                                   ".",
                                   "..",
                                   "/",
                                   "\\u0000",
                                   "\\ud800",
                                   "\xe2\x80\xae",
                                   "\x1b[2K",
                                   "#",
                                   "=",
                                   ",",
                                   " ",
                                   "-----BEGIN PRIVATE KEY-----\n",
                                   "\xf4\x90\x80\x80"};

class Changes {
 public:
  Changes(std::string text, std::span<const std::string> others, std::uint64_t seed)
      : text_(std::move(text)), others_(others), random_(seed * 0x9e3779b97f4a7c15ull + 1) {}

  std::string apply() {
    for (std::size_t left = 1 + below(4); left > 0; --left) change();
    return std::move(text_);
  }

 private:
  // Without std::uniform_int_distribution, which differs between libraries.
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

  void change() {
    const std::size_t at = below(text_.size() + 1), length = std::min(below(below(64) + 1) + 1, text_.size() - at);
    switch (below(10)) {
      case 0:
        if (at < text_.size()) text_[at] = static_cast<char>(text_[at] ^ 1 << below(8));
        break;
      case 1:
        if (at < text_.size()) text_[at] = static_cast<char>(below(256));
        break;
      case 2: text_.erase(at, length); break;
      case 3: text_.insert(at, text_.substr(at, length)); break;
      case 4: text_.resize(at); break;
      case 5: text_.insert(at, kPieces[below(std::size(kPieces))]); break;
      case 6: text_.insert(at, std::string(1 + below(300), "[{(\".\\ \n0a"[below(10)])); break;
      case 7: splice(at); break;
      default: other_number(at); break;
    }
  }

  void splice(std::size_t at) {
    if (others_.empty()) return;
    const std::string& other = others_[below(others_.size())];
    const std::size_t from = below(other.size() + 1);
    text_.replace(at, below(text_.size() - at + 1), other, from, below(other.size() - from + 1));
  }

  // The next number in the text becomes another one.
  void other_number(std::size_t at) {
    constexpr const char* kDigits = "0123456789";
    const std::size_t begin = text_.find_first_of(kDigits, at);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text_.find_first_not_of("0123456789.eE+-", begin), text_.size());
    text_.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
  }

  std::string text_;
  std::span<const std::string> others_;
  std::mt19937_64 random_;
};

}  // namespace

std::string mutated(std::string input, std::span<const std::string> others, std::uint64_t seed) {
  return Changes(std::move(input), others, seed).apply();
}

}  // namespace isobit::fuzz
