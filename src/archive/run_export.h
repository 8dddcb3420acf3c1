// A finished run as one file that a stranger can verify (docs/formats/export.md), and back.
//
// plan_export reads the record, which must be sound, and decides what goes in: nothing is written. export.json in it
// says what was left out or changed. Errors are UserError. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "archive/patch_summary.h"
#include "archive/run_record.h"
#include "archive/secret_scan.h"
#include "archive/sha256.h"

namespace isobit::archive {

inline constexpr const char* kExportFile = "export.json";
inline constexpr const char* kExportReadme = "README.txt";
inline constexpr const char* kPatchFile = "dirty.patch";
inline constexpr const char* kSourcesFile = "sources.json";
inline constexpr const char* kNetworkFile = "network.pt";

struct ExportOptions {
  bool with_weights = false;  // checkpoints, too
  bool redact = false;        // what looks like a secret becomes "(left out)"; else it is a finding
};

struct ExportPlan {
  std::string run;
  std::map<std::string, std::string> texts;            // files by name
  std::map<std::string, std::filesystem::path> files;  // those that are not read into memory
  std::map<std::string, FileDigest> left_out;
  std::map<std::string, std::vector<std::string>> changed;  // "redacted", "home paths"
  std::vector<Finding> findings;                            // where not empty, it must not be written
  std::vector<PatchedFile> patch;                           // what the uncommitted changes were
};

[[nodiscard]] ExportPlan plan_export(const RunRecord& record, const ExportOptions& options, const SecretScan& scan);

// Writes the plan. The file's size and digest.
FileDigest write_export(const ExportPlan& plan, const std::filesystem::path& path);

enum class Keep { durable, meanwhile };  // meanwhile: for a folder that goes again, nothing waits for the disk
// Unpacks the file to `runs`/<id>, which must not be there, and proves the record. Its folder.
[[nodiscard]] std::filesystem::path import_run(const std::filesystem::path& file, const std::filesystem::path& runs,
                                               Keep keep = Keep::durable);

// A folder of its own that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace isobit::archive
