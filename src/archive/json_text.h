// JSON from a file that anybody may have written: no more than 64 levels deep (nlohmann-json writes and compares by
// recursion), and no key twice in an object (a way to hide something). Not a public header: it names nlohmann-json.
// Thread-safe; no state.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

namespace detail {

class StrictJson {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr int kDeepest = 64;

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest) throw std::invalid_argument("is nested more than 64 levels deep");
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys_.empty()) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.empty() && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw std::invalid_argument("has a name twice");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

}  // namespace detail

// Throws std::exception where the text is no such JSON.
[[nodiscard]] inline nlohmann::ordered_json parse_json(std::string_view text) {
  detail::StrictJson strict;
  return nlohmann::ordered_json::parse(text.begin(), text.end(), std::ref(strict));
}

}  // namespace isobit::archive
