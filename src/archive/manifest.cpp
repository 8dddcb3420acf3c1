#include "archive/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

constexpr const char* kFormat = "isobit-manifest-1";

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string format_manifest(const Manifest& manifest) {
  std::string text =
      fmt::format("{{\n  \"format\": {},\n  \"run\": {},\n  \"files\": [", quoted(kFormat), quoted(manifest.run));
  const char* separator = "\n";
  for (const auto& [path, digest] : manifest.files) {
    text += fmt::format("{}    {{\"path\": {}, \"size\": {}, \"sha256\": {}}}", separator, quoted(path), digest.size,
                        quoted(digest.sha256));
    separator = ",\n";
  }
  text += "\n  ],\n";
  return text + fmt::format("  \"digest\": \"{}\"\n}}\n", sha256(text));
}

Manifest parse_manifest(std::string_view text, const std::string& place) {
  Manifest manifest;
  try {
    const auto object = parse_json(text);
    manifest.run = object.at("run").get<std::string>();
    for (const auto& file : object.at("files")) {
      manifest.files[file.at("path").get<std::string>()] = {integer<std::uint64_t>(file.at("size")),
                                                            file.at("sha256").get<std::string>()};
    }
  } catch (const std::exception&) {  // of JSON, or of a type other than expected
    throw UserError(place, "damaged: not a run's manifest", "restore the run's folder from a copy");
  }
  if (format_manifest(manifest) != text) {
    throw UserError(place, "damaged: its content does not match its digest", "restore the run's folder from a copy");
  }
  return manifest;
}

std::vector<std::string> list_files(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    std::string path = it->path().lexically_relative(folder).generic_string();
    if (it->symlink_status(error).type() == fs::file_type::directory) {
      if (path != "checkpoints") files.push_back(path + "/");
    } else if (path != kManifest) {
      files.push_back(std::move(path));
    }
  }
  if (error) throw_file_error(folder, "cannot be read", error.value());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace isobit::archive
