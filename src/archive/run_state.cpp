#include "archive/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "archive/json_text.h"
#include "archive/user_error.h"

namespace isobit::archive {
namespace {

constexpr const char* kFormat = "isobit-run-1";
using Json = nlohmann::ordered_json;

}  // namespace

std::string format_state(const StateFile& state) {
  Json inputs = Json::object();
  for (const auto& [path, digest] : state.inputs) inputs[path] = {{"size", digest.size}, {"sha256", digest.sha256}};
  Json object{{"format", kFormat},        {"id", state.id},       {"name", state.name},   {"contract", state.contract},
              {"created", state.created}, {"state", state.state}, {"steps", state.steps}, {"weights", state.weights}};
  if (!state.weights_sha256.empty()) object["weights_sha256"] = state.weights_sha256;
  object["reason"] = state.reason;
  object["inputs"] = inputs;
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

StateFile parse_state(const std::string& text, const std::string& place) {
  StateFile state;
  std::string format;
  try {
    const Json object = parse_json(text);
    format = object.at("format").get<std::string>();
    state = {object.at("id"),       object.at("name"),
             object.at("contract"), object.at("created"),
             object.at("state"),    integer<std::int64_t>(object.at("steps")),
             object.at("weights"),  "",
             object.at("reason"),   {}};
    if (object.contains("weights_sha256")) state.weights_sha256 = object.at("weights_sha256").get<std::string>();
    for (const auto& [path, digest] : object.at("inputs").items()) {
      state.inputs[path] = {integer<std::uint64_t>(digest.at("size")), digest.at("sha256").get<std::string>()};
    }
  } catch (const std::exception&) {  // of JSON, or of a type other than expected
    throw UserError(place, "damaged: not a run's state", "restore the run's folder from a copy");
  }
  if (format != kFormat) {
    throw UserError(place, fmt::format("has format '{}', this program reads '{}'", format, kFormat),
                    "use the isobit that wrote it");
  }
  if (format_state(state) != text) {
    throw UserError(place, "damaged: not as isobit writes it", "restore the run's folder from a copy");
  }
  return state;
}

bool is_run_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c < 128 && std::isalnum(c) != 0) || c == '-' || c == '_' || c == '.';
         });
}

bool is_run_id(std::string_view id, std::string_view name) {
  if (!is_run_name(name) || id.size() != 16 + name.size() + 9) return false;
  const std::string_view date = id.substr(0, 8), time = id.substr(9, 6);
  const auto is_number = [](std::string_view text) {
    return text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return is_number(date) && id[8] == '-' && is_number(time) && id[15] == '-' && id.substr(16, name.size()) == name &&
         id[16 + name.size()] == '-' && is_hex(id.substr(id.size() - 8), 8);
}

std::uint64_t largest_file(std::string_view path) {
  if (path == kExperimentFile) return std::uint64_t{1} << 20;
  if (path == "sources.json" || path == "dirty.patch") return std::uint64_t{256} << 20;
  if (path.ends_with(".jsonl") || path == "network.pt") return std::uint64_t{1} << 34;
  return std::uint64_t{16} << 20;
}

std::string utc_now() {
  const auto now = std::chrono::system_clock::now();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = static_cast<std::time_t>(micros / 1'000'000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, micros % 1'000'000);
}

void require_digest(const std::string& text, const FileDigest& expected, const std::filesystem::path& path) {
  if (text.size() != expected.size) {
    throw UserError(path.string(),
                    fmt::format("damaged: it has {} bytes, the record says {}", text.size(), expected.size),
                    "restore the run's folder from a copy");
  }
  const std::string found = sha256(text);
  if (found != expected.sha256) {
    throw UserError(path.string(),
                    fmt::format("damaged: its SHA-256 is {:.8}..., the record says {:.8}...", found, expected.sha256),
                    "restore the run's folder from a copy");
  }
}

}  // namespace isobit::archive
