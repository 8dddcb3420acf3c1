// The form of an OpenSSH signature (PROTOCOL.sshsig of OpenSSH), looked at before ssh-keygen gets the file: it comes
// with the record, from whoever exported that. Proves nothing; which key it is by, and of what, ssh-keygen says.
// No state; thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace isobit::proof {

inline constexpr std::size_t kLongestSignature = 64 << 10;  // an RSA key of 16,384 bits takes 6 KB

struct SshSignature {
  std::string key_type;  // "ssh-ed25519"
  std::string purpose;   // the namespace that it was made for
  std::string hash;      // "sha256" or "sha512"
};

// archive::UserError naming `place` where the text is no such signature: another frame, characters that are no base64,
// lengths that do not add up, another version, anything after its end.
[[nodiscard]] SshSignature parse_ssh_signature(std::string_view text, const std::string& place);

// The first of the names that `ssh-keygen -Y find-principals` printed, one a line; "" where there is none.
[[nodiscard]] std::string first_principal(std::string_view said);

// What `ssh-keygen -Y verify` said of a good signature: "ED25519 SHA256:..."; "" where it says anything else than
// `Good "PURPOSE" signature for NAME with ED25519 key SHA256:...` in its first line.
[[nodiscard]] std::string parse_good_signature(std::string_view said, const std::string& purpose,
                                               const std::string& name);

}  // namespace isobit::proof
