// The folder of a submitted job, RUNS/.jobs/<name>-<token> on the file system that the nodes share: the experiment as
// it was submitted, the script, the key that its workers prove themselves with, and what the job prints.
//
// Only the user can enter it (mode 0700), and read the keys (0600). Whole or not at all: an error leaves nothing.
// Errors are UserError and FileError. One thread per object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace isobit::slurm {

inline constexpr const char* kJobsFolder = ".jobs";

// 16 hex digits of the system's random numbers.
[[nodiscard]] std::string make_token();
// A key as workers have it: 64 hex digits of the system's random numbers.
[[nodiscard]] std::string make_key();

class JobFolder {
 public:
  // Creates it.
  explicit JobFolder(std::filesystem::path path);
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  ~JobFolder();  // removes it, unless it is kept

  void write(const std::string& file, const std::string& content) const;
  // "key" for one run (0), or "key-0", "key-1", ... for each run of an array: workers of one cannot join another.
  void write_keys(std::int64_t runs) const;
  void keep() { kept_ = true; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  void write_secret(const std::string& file, const std::string& content) const;

  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace isobit::slurm
