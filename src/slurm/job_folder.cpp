#include "slurm/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "archive/files.h"

namespace isobit::slurm {

std::string make_token() { return archive::random_suffix() + archive::random_suffix(); }

std::string make_key() {
  std::string key;
  while (key.size() < 64) key += archive::random_suffix();
  return key;
}

JobFolder::JobFolder(std::filesystem::path path) : path_(std::move(path)) {
  archive::make_folders(path_.parent_path());
  if (::mkdir(path_.c_str(), 0700) != 0) archive::throw_file_error(path_, "cannot be created", errno);
}

JobFolder::~JobFolder() {
  std::error_code ignored;
  if (!kept_) std::filesystem::remove_all(path_, ignored);
}

void JobFolder::write(const std::string& file, const std::string& content) const {
  archive::write_file(path_ / file, content);
}

// Never readable by others, not even for the moment between making a file and changing its mode.
void JobFolder::write_secret(const std::string& file, const std::string& content) const {
  const std::filesystem::path path = path_ / file;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) archive::throw_file_error(path, "cannot be created", errno);
  int code = archive::write_all(descriptor, std::as_bytes(std::span(content.data(), content.size())));
  if (code == 0 && ::fsync(descriptor) != 0) code = errno;
  if (::close(descriptor) != 0 && code == 0) code = errno;
  if (code != 0) archive::throw_file_error(path, "cannot be written", code);
}

void JobFolder::write_keys(std::int64_t runs) const {
  if (runs == 0) return write_secret("key", make_key() + "\n");
  for (std::int64_t run = 0; run < runs; ++run) write_secret(fmt::format("key-{}", run), make_key() + "\n");
}

}  // namespace isobit::slurm
