#include "proof/ssh_signature.h"

#include <fmt/format.h>

#include <cstdint>

#include "archive/user_error.h"

namespace isobit::proof {
namespace {

constexpr std::string_view kBegin = "-----BEGIN SSH SIGNATURE-----\n", kEnd = "\n-----END SSH SIGNATURE-----";
constexpr std::string_view kMagic = "SSHSIG";

class Malformed {};

// RFC 4648, in lines of any length; as ssh-keygen, padding at the end alone.
std::string decoded(std::string_view base64) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  std::size_t digits = 0, padding = 0;
  for (const char c : base64) {
    if (c == '\n' || c == '\r') continue;
    const auto value = kDigits.find(c);
    if (c == '=' ? ++padding > 2 : padding != 0 || value == std::string_view::npos) throw Malformed();
    bits = bits << 6 | (c == '=' ? 0 : static_cast<std::uint32_t>(value));
    if (++digits % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) bytes.push_back(static_cast<char>(bits >> shift & 0xff));
  }
  if (digits % 4 != 0) throw Malformed();
  bytes.resize(bytes.size() - padding);
  return bytes;
}

std::string_view take(std::string_view& bytes, std::size_t count) {
  if (count > bytes.size()) throw Malformed();
  const std::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

std::uint32_t take_number(std::string_view& bytes) {
  std::uint32_t number = 0;
  for (const char c : take(bytes, 4)) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

// A length and as many bytes.
std::string_view take_string(std::string_view& bytes) { return take(bytes, take_number(bytes)); }

std::string take_word(std::string_view& bytes) {
  const std::string_view word = take_string(bytes);
  for (const char c : word) {
    if (c <= ' ' || c > '~') throw Malformed();
  }
  if (word.empty() || word.size() > 256) throw Malformed();
  return std::string(word);
}

SshSignature parse(std::string_view text) {
  if (text.size() > kLongestSignature || !text.starts_with(kBegin)) throw Malformed();
  text.remove_prefix(kBegin.size());
  const auto end = text.find(kEnd);
  if (end == std::string_view::npos) throw Malformed();
  const std::string_view after = text.substr(end + kEnd.size());
  if (!after.empty() && after != "\n") throw Malformed();
  const std::string blob = decoded(text.substr(0, end));
  std::string_view bytes = blob;
  if (take(bytes, kMagic.size()) != kMagic || take_number(bytes) != 1) throw Malformed();
  SshSignature signature;
  std::string_view key = take_string(bytes);
  signature.key_type = take_word(key);
  signature.purpose = take_word(bytes);
  static_cast<void>(take_string(bytes));  // reserved
  signature.hash = take_word(bytes);
  if (signature.hash != "sha256" && signature.hash != "sha512") throw Malformed();
  if (take_string(bytes).empty() || !bytes.empty()) throw Malformed();
  return signature;
}

}  // namespace

SshSignature parse_ssh_signature(std::string_view text, const std::string& place) {
  try {
    return parse(text);
  } catch (const Malformed&) {
    throw archive::UserError(place, "is no signature of OpenSSH's", "get it again from where the record was exported");
  }
}

std::string first_principal(std::string_view said) { return std::string(said.substr(0, said.find('\n'))); }

std::string parse_good_signature(std::string_view said, const std::string& purpose, const std::string& name) {
  const std::string_view line = said.substr(0, said.find('\n'));
  const std::string begin = fmt::format("Good \"{}\" signature for {} with ", purpose, name);
  if (!line.starts_with(begin)) return "";
  std::string key(line.substr(begin.size()));
  if (const auto word = key.find(" key "); word != std::string::npos) key.replace(word, 5, " ");
  return key;
}

}  // namespace isobit::proof
