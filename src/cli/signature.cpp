#include "cli/signature.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "archive/files.h"
#include "archive/run_export.h"
#include "archive/user_error.h"
#include "cli/child_process.h"

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr const char* kNamespace = "export@isobit";
constexpr const char* kSuffix = ".sig";

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Its words begin with a dash nowhere but in options of ours: paths are made absolute.
std::string absolute(const std::string& path) { return fs::absolute(path).string(); }

// Runs ssh-keygen with `file` as its input; what it says on stderr is the user's to read.
ChildResult ssh_keygen(std::vector<std::string> words, const std::string& input) {
  std::vector<std::string> all = {"sh", "-c", R"(input=$1; shift; exec ssh-keygen "$@" < "$input")", "sh",
                                  absolute(input)};
  all.insert(all.end(), words.begin(), words.end());
  return run_child(all);
}

void require_file(const std::string& path, const char* what, const char* remedy) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw UserError(path, what, remedy);
}

void require_ssh_keygen() {
  if (run_child({"sh", "-c", "command -v ssh-keygen"}).code != 0)
    throw UserError("ssh-keygen", "is not installed", "install OpenSSH's client (Debian: openssh-client)");
}

}  // namespace

void require_can_sign(const std::string& key) {
  require_file(key, "no such key (--sign)", "make one with: ssh-keygen -t ed25519 -f KEY");
  require_ssh_keygen();
}

std::string sign_file(const std::string& file, const std::string& key) {
  const ChildResult result = ssh_keygen({"-Y", "sign", "-f", absolute(key), "-n", kNamespace}, file);
  if (result.code != 0 || !result.output.starts_with("-----BEGIN SSH SIGNATURE-----"))
    throw UserError(key, fmt::format("ssh-keygen cannot sign with it: it {}", result.how_it_ended()),
                    "its message is above; the exported file itself is sound");
  archive::write_file(file + kSuffix, result.output);
  return file + kSuffix;
}

std::string signer_of(const std::string& file, const std::string& signers) {
  const std::string signature = file + kSuffix;
  require_file(signers, "no such file (--signers)",
               "one signer a line: NAME KEYTYPE KEY, as in OpenSSH's allowed_signers");
  require_file(signature, "no such file: the exported record is not signed",
               "get it from where the record was exported, or leave out --signers");
  require_ssh_keygen();
  const std::vector<std::string> find = {"-Y", "find-principals", "-s", absolute(signature), "-f", absolute(signers)};
  const ChildResult found = ssh_keygen(find, "/dev/null");
  const std::string name = first_line(found.output);
  if (found.code != 0 || name.empty())
    throw UserError(signature, fmt::format("is by nobody in {}", signers),
                    "ask the one who exported it for his public key");
  const std::vector<std::string> verify = {"-Y", "verify",   "-f", absolute(signers),  "-I", name,
                                           "-n", kNamespace, "-s", absolute(signature)};
  const ChildResult result = ssh_keygen(verify, file);
  // "Good "export@isobit" signature for NAME with ED25519 key SHA256:..."
  const std::string said = first_line(result.output);
  const std::string begin = fmt::format("Good \"{}\" signature for {} with ", kNamespace, name);
  if (result.code != 0 || !said.starts_with(begin))
    throw UserError(signature, fmt::format("is not {}'s signature of this file", name),
                    "get both files again from where the record was exported");
  std::string key = said.substr(begin.size());
  if (const auto word = key.find(" key "); word != std::string::npos) key.replace(word, 5, " ");
  return fmt::format("{} ({})", name, key);
}

}  // namespace isobit::cli
