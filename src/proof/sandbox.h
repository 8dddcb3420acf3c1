// Where code that came with a record runs: bubblewrap, below a file system of our own.
//
// In it: no network but a loopback of its own; all namespaces new; no capabilities; the system (/usr, the loader's
// files) and what is named readable, read-only; nothing else of the file system, and nothing of the home. What can be
// written lies in one tmpfs of a limited size: /verify/program, /verify/runs, the home, /tmp and /dev/shm; it is gone
// when the sandbox ends. /verify/program shows several folders as one, by an overlay: what the program changes there
// stays in the tmpfs. Memory, processes and time have limits.
//
// Needs Linux 5.11, bubblewrap 0.8, and user namespaces. Errors are UserError. Builds requests only: no state.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "process/child_process.h"
#include "proof/sandbox_limits.h"

namespace isobit::proof {

inline constexpr const char* kProgramFolder = "/verify/program";
inline constexpr const char* kRunsFolder = "/verify/runs";

struct SandboxRequest {
  // /verify/program, the uppermost first; they are not written.
  std::vector<std::filesystem::path> layers;
  // Files and folders seen where they are; what lies in the lowest layer as /verify/program shows it.
  std::vector<std::filesystem::path> readable;
  // Folders of these, without links, that are seen as they are on the disk, whatever a layer has in their place.
  std::vector<std::filesystem::path> as_they_are;
  std::vector<std::pair<std::filesystem::path, std::string>> links;  // symbolic links to make: where, to what
  std::vector<std::filesystem::path> hidden;                         // in none of the above
  std::filesystem::path home;                                        // its path alone: a new folder appears there
  bool devices = false;                                              // GPUs
  std::vector<std::string> words, environment;
  SandboxLimits limits;
};

// A child that runs request.words in the sandbox. `work` is a folder of this process's own, which must outlive the
// child.
[[nodiscard]] process::ChildRequest in_sandbox(const SandboxRequest& request, const std::filesystem::path& work);

// UserError where no sandbox can be made here: why, and what to do.
void require_sandbox();

// Where the home appears in a sandbox: at its own path, so that "~/data" and --read mean the same; "/home/verify" where
// that cannot be.
[[nodiscard]] std::filesystem::path sandbox_home();

// Whether `path` is `folder` or lies in it. By name alone.
[[nodiscard]] bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder);

}  // namespace isobit::proof
