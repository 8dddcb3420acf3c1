#include "slurm/slurm_json.h"

#include <fmt/format.h>

#include <utility>

#include "archive/user_error.h"

namespace isobit::slurm {
namespace {

using archive::UserError;
using nlohmann::json;

constexpr const char* kJsonRemedy = "isobit reads what Slurm 22.05 and later print with --json";

// A cluster's whole state is some MB; deeper or more than this is something else.
json parse(std::string_view text, const char* program) {
  constexpr int kDeepest = 64;
  bool too_deep = false;
  json document = json::parse(
      text.begin(), text.end(),
      [&](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      false);
  if (too_deep || document.is_discarded() || !document.is_object())
    throw UserError(program, "printed something other than a JSON object", kJsonRemedy);
  return document;
}

}  // namespace

Entry::Entry(const json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object.is_object()) throw UserError(place_, "is no JSON object", kJsonRemedy);
}

const json* Entry::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Entry::refuse(const char* key, const char* expected) const {
  throw UserError(fmt::format("{}.{}", place_, key), fmt::format("is not {}", expected), kJsonRemedy);
}

std::string Entry::text(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) refuse(key, "a text");
  return value->get<std::string>();
}

std::int64_t Entry::number(const char* key) const {
  const json* value = find(key);
  if (value == nullptr) return 0;
  if (value->is_object()) {
    const Entry inner(*value, fmt::format("{}.{}", place_, key));
    const json* set = inner.find("set");
    return set != nullptr && *set == true ? inner.number("number") : 0;
  }
  constexpr std::int64_t kFarthest = std::int64_t{1} << 62;
  if (!value->is_number_integer()) refuse(key, "a whole number");
  if (value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{kFarthest}) refuse(key, "in range");
  const auto number = value->get<std::int64_t>();
  if (number < 0) refuse(key, "a number from 0 up");
  return number;
}

std::vector<std::string> Entry::words(const char* key) const {
  const json* value = find(key);
  std::vector<std::string> words;
  if (value == nullptr) return words;
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) refuse(key, "a list of words");
  for (const json& word : *value) {
    if (!word.is_string()) refuse(key, "a list of words");
    words.push_back(word.get<std::string>());
  }
  return words;
}

Answer::Answer(std::string_view text, const char* program, const char* key)
    : document_(parse(text, program)), program_(program), key_(key) {
  if (const auto errors = document_.find("errors"); errors != document_.end() && !errors->empty())
    throw UserError(program, "reports an error: " + errors->dump(), "");
  const auto list = document_.find(key);
  if (list == document_.end() || !list->is_array())
    throw UserError(program, fmt::format("printed no list '{}'", key), kJsonRemedy);
}

std::vector<Entry> Answer::entries() const {
  std::vector<Entry> entries;
  const json& list = document_.at(key_);
  for (std::size_t i = 0; i < list.size(); ++i)
    entries.emplace_back(list[i], fmt::format("{}: {}[{}]", program_, key_, i));
  return entries;
}

}  // namespace isobit::slurm
