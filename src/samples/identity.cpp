// What identifies a source's files (source.h): their digests.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <utility>

#include "archive/files.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "samples/data_format.h"
#include "samples/digest_cache.h"
#include "samples/image_list.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

namespace fs = std::filesystem;
using archive::UserError;

class Digester {
 public:
  explicit Digester(Digests digests) : digests_(digests), cache_(digest_cache_path()) {}

  // Of one file; its size and SHA-256.
  archive::FileDigest file(const std::string& path) {
    const struct stat before = status_of(path);
    if (digests_ == Digests::cached && S_ISREG(before.st_mode)) {
      if (auto known = cache_.find(before)) return {static_cast<std::uint64_t>(before.st_size), *std::move(known)};
    }
    std::timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    archive::FileDigest digest = archive::digest_file(path);
    const struct stat after = status_of(path);
    if (!is_same(before, after) || digest.size != static_cast<std::uint64_t>(before.st_size))
      throw UserError(path, "changed while it was read", "leave data files alone during a run; run again");
    if (is_settled(before, now.tv_sec)) cache_.put(before, digest.sha256);
    return digest;
  }

  // Of files below a folder, as the digest of what sha256sum prints of them.
  Identity folder(const std::string& name, const std::string& folder, std::vector<std::string> paths) {
    std::sort(paths.begin(), paths.end());
    Identity identity{name.empty() || name == "." ? "./" : name + (name.ends_with('/') ? "" : "/"), 0, ""};
    archive::Sha256 list;
    for (const std::string& path : paths) {
      const archive::FileDigest digest = file((fs::path(folder) / path).string());
      identity.size += digest.size;
      list.update(line(digest.sha256, path));
    }
    identity.sha256 = list.hex();
    return identity;
  }

 private:
  static struct stat status_of(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) archive::throw_file_error(path, "cannot be read", errno);
    return status;
  }

  // As sha256sum escapes names with line ends and backslashes.
  static std::string line(const std::string& sha256, const std::string& path) {
    if (path.find_first_of("\\\n\r") == std::string::npos) return sha256 + "  " + path + "\n";
    std::string escaped;
    for (const char c : path) escaped += c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" : std::string(1, c);
    return "\\" + sha256 + "  " + escaped + "\n";
  }

  Digests digests_;
  DigestCache cache_;
};

std::vector<std::string> image_paths(const Source& source) {
  const ImageList list(source);
  std::vector<std::string> paths;
  for (std::int64_t id = 0; id < list.count(); ++id) paths.emplace_back(list.path(id));
  return paths;
}

std::vector<std::string> array_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const std::string& name : archive::names_in(folder)) {
    if (name.size() > 4 && name.ends_with(".npy")) files.push_back(name);
  }
  return files;
}

}  // namespace

std::vector<Identity> identify(const Source& source, Digests digests) {
  Digester digester(digests);
  std::vector<Identity> identities;
  const auto add_file = [&](const std::string& name) {
    const archive::FileDigest digest = digester.file(path_of(source, name));
    identities.push_back({name, digest.size, digest.sha256});
  };
  const std::string path = path_of(source, source.file);
  std::error_code none;
  if (source.format == "images") {
    if (!source.table.empty()) add_file(source.table);
    identities.push_back(digester.folder(source.file, path, image_paths(source)));
  } else if (source.format == "npy" && fs::is_directory(path, none)) {
    identities.push_back(digester.folder(source.file, path, array_files(path)));
  } else if (const DataFormat* format = find_data_format(source.format); format != nullptr && format->files) {
    for (const std::string& file : format->files(source)) add_file(file);
  } else {
    add_file(source.file);
    if (source.format == "idx") add_file(source.labels);
  }
  return identities;
}

std::string decoder(const Source& source) {
  const DataFormat* format = find_data_format(source.format);
  return format != nullptr && format->decoder ? format->decoder(source) : "";
}

}  // namespace isobit::samples
