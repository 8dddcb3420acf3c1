#include "archive/tuning_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "archive/environment.h"
#include "archive/files.h"
#include "archive/json_text.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

constexpr int kFormat = 1;
constexpr const char* kRemedy = "run isobit tune again, or remove the file";
constexpr const char* kOtherFile = "name another file with --out";

const char* non_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

constexpr std::uint64_t kLargest = 1 << 16;

kernels::Tuning parse(const nlohmann::ordered_json& json, const std::string& place) {
  kernels::Tuning tuning;
  const auto keys = kernels::tuning_keys();
  for (const auto& [name, value] : json.at("sizes").items()) {
    bool known = false;
    for (const kernels::TuningKey& key : keys) {
      if (name != key.name) continue;
      known = true;
      const auto size = value.is_number_integer() ? integer<std::int64_t>(value) : key.least - 1;
      if (size < key.least || size > key.most) {
        throw UserError(place, fmt::format("'{}' must be an integer from {} to {}", name, key.least, key.most),
                        kRemedy);
      }
      tuning.*key.member = size;
    }
    if (!known) throw UserError(place, fmt::format("unknown key '{}' in \"sizes\"", name), kRemedy);
  }
  return tuning;
}

}  // namespace

std::filesystem::path tuning_path() {
  if (const char* named = non_empty("ISOBIT_TUNING")) return named;
  if (const char* folder = non_empty("XDG_CONFIG_HOME"))
    return std::filesystem::path(folder) / "isobit" / "tuning.json";
  if (const char* home = non_empty("HOME")) return std::filesystem::path(home) / ".config" / "isobit" / "tuning.json";
  return {};
}

bool load_tuning() {
  const std::filesystem::path path = tuning_path();
  const bool named = non_empty("ISOBIT_TUNING") != nullptr;
  std::error_code unreadable;
  if (path.empty() || (!named && !std::filesystem::exists(path, unreadable))) return false;
  std::string text;
  try {
    text = read_file(path, kLargest);
  } catch (const UserError&) {
    throw UserError(path.string(), "the tuning table cannot be read",
                    named ? "correct or unset ISOBIT_TUNING" : kRemedy);
  }
  try {
    const auto json = parse_json(text);
    if (json.at("format") != kFormat) throw UserError(path.string(), "is a tuning table of another format", kRemedy);
    const kernels::Tuning tuning = parse(json, path.string());
    if (json.at("cpu") != cpu_name()) return false;
    kernels::set_tuning(tuning);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(path.string(), fmt::format("not a tuning table: {}", error.what()), kRemedy);
  }
  return true;
}

void expect_writable_tuning(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw UserError(path.string(), "is a folder", kOtherFile);
  std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  while (!std::filesystem::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  if (!std::filesystem::is_directory(folder, ignored)) throw UserError(folder.string(), "is not a folder", kOtherFile);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError(path.string(), fmt::format("cannot be written: {}", std::strerror(errno)), kOtherFile);
}

void write_tuning(const std::filesystem::path& path, const kernels::Tuning& tuning) {
  nlohmann::ordered_json json{{"format", kFormat}, {"cpu", cpu_name()}};
  for (const kernels::TuningKey& key : kernels::tuning_keys()) json["sizes"][key.name] = tuning.*key.member;
  try {
    if (path.has_parent_path()) make_folders(path.parent_path());
    write_file(path, json.dump(2) + "\n");
  } catch (const UserError& error) {
    throw UserError(error.place(), error.problem(), kOtherFile);
  }
}

}  // namespace isobit::archive
