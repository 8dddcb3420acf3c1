// What other programs say about a record that is verified: isobit._proof._verify about running its program, ssh-keygen
// about who signed it, and the signature that comes with the record.
#include "fuzz/target.h"
#include "fuzz/targets.h"
#include "proof/script_plan.h"
#include "proof/ssh_signature.h"

namespace isobit::fuzz {

void run_plan(std::string_view input) {
  try {
    const proof::ScriptPlan plan = proof::parse_plan(input);
    require(plan.python.starts_with('/') && !plan.file.starts_with('/') && !plan.file.empty(),
            "paths are as they must be");
    for (const auto& part : std::filesystem::path("/program") / plan.folder / plan.file)
      require(part != "..", "a program stays in its folder");
    for (const std::string& word : plan.arguments)
      require(word.find('\0') == std::string::npos, "a word ends at its end");
    for (const std::string& variable : plan.environment)
      require(variable.find('=') != 0 && variable.find('=') != std::string::npos, "a variable has a name");
  } catch (const Fault&) {
    throw;
  } catch (const std::exception&) {  // verify says what it is
  }
}

std::vector<std::string> plan_seeds() {
  return {
      R"({"python": "/usr/bin/python3", "file": "a/train.py", "folder": "a", "arguments": ["--lr", "0.1"],)"
      R"( "instead": "", "unused": [], "readable": ["/usr", "/opt/x"], "links": [["/usr/bin/python3", "python3.11"]], "beside": "/home/me/x",)"
      R"( "hidden": ["/home/me/x/.git"], "own": ["/home/me/x/venv"], "environment": {"USER": "verify", "PATH": "/usr/bin:/bin"}, "processes": 2, "seeded": true})",
      R"({"python": "/p", "file": "../x", "folder": "", "arguments": [true], "instead": "", "unused": [], "readable": [], "links": [],)"
      R"( "beside": "", "hidden": [], "own": [], "environment": {"A=B": "c"}, "processes": 1e300, "seeded": 1e300})"};
}

void run_signature(std::string_view input) {
  accepts([&] {
    const proof::SshSignature signature = proof::parse_ssh_signature(input, "run.tar.sig");
    require(!signature.key_type.empty() && !signature.purpose.empty(), "a signature says what it is for");
    require(signature.purpose.find_first_of("\n\r\x1b") == std::string::npos, "in a word that can be printed");
    require(signature.hash == "sha256" || signature.hash == "sha512", "with a known hash");
  });
  require(proof::first_principal(input).find('\n') == std::string::npos, "a name is a line");
  const std::string key = proof::parse_good_signature(input, "export@isobit", "alice@lab");
  require(key.empty() || input.starts_with("Good \"export@isobit\" signature for alice@lab with "), "good means good");
}

std::vector<std::string> signature_seeds() {
  return {
      "-----BEGIN SSH SIGNATURE-----\n"
      "U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgsmBBMrbF41JYCjM0NMk1WnD0vr\n"
      "AHtEvGf+Cl/l1aktEAAAANZXhwb3J0QGlzb2JpdAAAAAAAAAAGc2hhNTEyAAAAUwAAAAtz\n"
      "c2gtZWQyNTUxOQAAAEDcpfJnPPou1IWw+dv8P5Gfw5Ti0uIi78olWtvEDbMHna6yPtJLS5\n"
      "YcubDoowg+s4QGnYCx/+UkD/abKhOtMH8J\n"
      "-----END SSH SIGNATURE-----\n",
      "alice@lab\nbob@lab\n\n",
      "Good \"export@isobit\" signature for alice@lab with ED25519 key "
      "SHA256:tA4/QjtTyZjI9c4SZAsE7+CgQZCf0+3bHaZpOyIZHvA\n"};
}

}  // namespace isobit::fuzz
