#include "archive/record_part.h"

#include <algorithm>
#include <stdexcept>

#include "archive/json_text.h"

namespace isobit::archive {
namespace {

constexpr std::string_view kBegin = "part-", kEnd = ".json";

std::vector<RecordPart>& registered() {
  static std::vector<RecordPart> all;
  return all;
}

bool is_part_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && name.front() != '-' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

const std::vector<RecordPart>& record_parts() { return registered(); }

const RecordPart* find_record_part(std::string_view name) {
  const auto found =
      std::find_if(registered().begin(), registered().end(), [&](const RecordPart& part) { return part.name == name; });
  return found == registered().end() ? nullptr : &*found;
}

std::string part_file(std::string_view name) {
  if (!is_part_name(name)) throw std::invalid_argument("no name for a part of a record: " + std::string(name));
  return std::string(kBegin).append(name).append(kEnd);
}

std::string part_name(std::string_view file) {
  if (!file.starts_with(kBegin) || !file.ends_with(kEnd) || file.size() <= kBegin.size() + kEnd.size()) return "";
  const std::string_view name = file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size());
  return is_part_name(name) ? std::string(name) : "";
}

void require_part(const std::string& json) {
  const auto object = parse_json(json);
  if (!object.is_object() || !object.contains("format") || !object["format"].is_string())
    throw std::invalid_argument("a part of a record is a JSON object with a format");
}

void add_collected_parts(std::map<std::string, std::string>& inputs) {
  for (const RecordPart& part : registered()) {
    if (!part.collect) continue;
    auto text = part.collect();
    if (!text) continue;
    require_part(*text);
    inputs[part_file(part.name)] = *std::move(text);
  }
}

RecordPartRegistration::RecordPartRegistration(RecordPart part) {
  static_cast<void>(part_file(part.name));
  registered().push_back(std::move(part));
}

}  // namespace isobit::archive
