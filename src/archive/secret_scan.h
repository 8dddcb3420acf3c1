// Finds what looks like a secret, and home paths, in texts about to be given away.
//
// A secret: a private key; tokens of well-known services by their shape; user and password in a URL or a login; a
// value given to a name that ends in token, secret, password, api_key or the like, or in _KEY in capitals; the value of
// an environment variable of such a name. Guesses: they find the usual accidents, not what is hidden. RE2: linear in
// the text's length. Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

struct Finding {
  std::string place;  // "dirty.patch:12"
  std::string what;   // "a value of HF_TOKEN"; never the secret itself
  bool always;        // a private key: no option lets it pass
};

class SecretScan {
 public:
  // Lines that hold one of `allowed` pass. `variables`: the environment's names and values. `home`: the user's, or "".
  SecretScan(std::vector<std::string> allowed, const std::map<std::string, std::string>& variables, std::string home);
  ~SecretScan();
  SecretScan(SecretScan&&) noexcept;
  SecretScan& operator=(SecretScan&&) noexcept;

  [[nodiscard]] std::vector<Finding> find(const std::string& name, std::string_view text) const;
  // A file whose name says that it holds secrets (.env, id_rsa, *.pem, ...); false for one that is allowed.
  [[nodiscard]] bool is_secret_file(const std::string& path) const;
  // One whose name says that it holds a private key, allowed or not.
  [[nodiscard]] bool is_key_file(const std::string& path) const;
  // The text with "(left out)" in the place of each finding's whole value: of a private key all its lines.
  [[nodiscard]] std::string redacted(std::string_view text) const;
  // The text with home folders as "~".
  [[nodiscard]] std::string without_home(const std::string& text) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// This process's environment.
[[nodiscard]] std::map<std::string, std::string> environment_variables();

}  // namespace isobit::archive
