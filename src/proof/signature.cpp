#include "proof/signature.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "archive/files.h"
#include "archive/run_export.h"
#include "archive/user_error.h"
#include "process/child_process.h"
#include "proof/ssh_signature.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

constexpr const char* kNamespace = "export@isobit";
constexpr const char* kSuffix = ".sig";

// Its words begin with a dash nowhere but in options of ours: paths are made absolute.
std::string absolute(const std::string& path) { return fs::absolute(path).string(); }

// Of an absolute folder on PATH alone: one that lies where an exported file came with it could call any signature good.
std::string ssh_keygen_program() {
  std::string program = process::find_program("ssh-keygen");
  if (program.empty())
    throw UserError("ssh-keygen", "is not installed", "install OpenSSH's client (Debian: openssh-client)");
  return program;
}

// Runs ssh-keygen with `file` as its input; what it says on stderr is the user's to read.
process::ChildResult ssh_keygen(std::vector<std::string> words, const std::string& input) {
  std::vector<std::string> all = {
      "sh", "-c", R"(input=$1; shift; exec "$@" < "$input")", "sh", absolute(input), ssh_keygen_program()};
  all.insert(all.end(), words.begin(), words.end());
  return process::run_child(all);
}

void require_file(const std::string& path, const char* what, const char* remedy) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) throw UserError(path, what, remedy);
}

}  // namespace

void require_can_sign(const std::string& key) {
  require_file(key, "no such key (--sign)", "make one with: ssh-keygen -t ed25519 -f KEY");
  static_cast<void>(ssh_keygen_program());
}

std::string sign_file(const std::string& file, const std::string& key) {
  const process::ChildResult result = ssh_keygen({"-Y", "sign", "-f", absolute(key), "-n", kNamespace}, file);
  if (result.code != 0 || !result.output.starts_with("-----BEGIN SSH SIGNATURE-----"))
    throw UserError(key, fmt::format("ssh-keygen cannot sign with it: it {}", result.how_it_ended()),
                    "its message is above; the exported file itself is sound");
  archive::write_file(file + kSuffix, result.output);
  return file + kSuffix;
}

std::string signer_of(const std::string& file, const std::string& copy, const std::string& signers) {
  const std::string signature = file + kSuffix;
  require_file(signers, "no such file (--signers)",
               "one signer a line: NAME KEYTYPE KEY, as in OpenSSH's allowed_signers");
  require_file(signature, "no such file: the exported record is not signed",
               "get it from where the record was exported, or leave out --signers");
  static_cast<void>(ssh_keygen_program());
  const SshSignature form = parse_ssh_signature(archive::read_file(signature, kLongestSignature), signature);
  if (form.purpose != kNamespace)
    throw UserError(signature, fmt::format("is a signature for '{}', not of an exported record", form.purpose),
                    "get it from where the record was exported");
  const std::vector<std::string> find = {"-Y", "find-principals", "-s", absolute(signature), "-f", absolute(signers)};
  const process::ChildResult found = ssh_keygen(find, "/dev/null");
  const std::string name = first_principal(found.output);
  if (found.code != 0 || name.empty())
    throw UserError(signature, fmt::format("is by nobody in {}", signers),
                    "ask the one who exported it for his public key");
  const std::vector<std::string> verify = {"-Y", "verify",   "-f", absolute(signers),  "-I", name,
                                           "-n", kNamespace, "-s", absolute(signature)};
  const process::ChildResult result = ssh_keygen(verify, copy);
  const std::string key = result.code == 0 ? parse_good_signature(result.output, kNamespace, name) : "";
  if (key.empty())
    throw UserError(signature, fmt::format("is not {}'s signature of this file", name),
                    "get both files again from where the record was exported");
  return fmt::format("{} ({})", name, key);
}

}  // namespace isobit::proof
