// Who vouches for an exported record: signatures of OpenSSH (`ssh-keygen -Y`), in the file FILE.sig beside FILE, under
// a namespace of isobit's own, so that no signature made for something else passes. No cryptography here: ssh-keygen is
// called. One call at a time (child_process.h).
#pragma once

#include <string>

namespace isobit::proof {

// UserError unless ssh-keygen is there and `key` is a file: before anything is written.
void require_can_sign(const std::string& key);

// Signs `file` with a private key, or with the agent's for a public one; ssh-keygen may ask for a passphrase. Writes
// FILE.sig at once as a whole and returns its path. UserError where it cannot.
std::string sign_file(const std::string& file, const std::string& key);

// The signer as `signers` (OpenSSH's allowed_signers format) names him and his key: "alice@lab (ED25519 SHA256:...)".
// UserError where FILE.sig is missing, is none, is by nobody in `signers`, or is for other bytes than those of `copy`,
// which nobody else can write.
[[nodiscard]] std::string signer_of(const std::string& file, const std::string& copy, const std::string& signers);

}  // namespace isobit::proof
