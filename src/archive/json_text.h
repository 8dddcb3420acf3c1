// JSON from a file that anybody may have written: no more than 64 levels deep (nlohmann-json writes and compares by
// recursion), no key twice in an object (a way to hide something), at most 10,000 keys in one (an ordered_json looks
// through all of them for each new one) and 2^20 values in all. Not a public header: it names nlohmann-json.
// Thread-safe; no state.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace isobit::archive {

namespace detail {

template <class Json>
class StrictJson {
 public:
  static constexpr int kDeepest = 64;
  static constexpr bool kIsOrdered = std::is_same_v<Json, nlohmann::ordered_json>;
  static constexpr std::size_t kMostKeys = 10'000, kMostValues = std::size_t{1} << 20;

  bool operator()(int depth, typename Json::parse_event_t event, Json& parsed) {
    using Event = typename Json::parse_event_t;
    if (depth > kDeepest) throw std::invalid_argument("is nested more than 64 levels deep");
    if (event == Event::object_end) {
      if (!keys_.empty()) keys_.pop_back();
    } else if (event != Event::array_end && ++values_ > kMostValues) {
      throw std::invalid_argument("holds more than 2^20 values");
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::key && !keys_.empty()) {
      if (!keys_.back().insert(parsed.template get<std::string>()).second)
        throw std::invalid_argument("has a name twice");
      if (kIsOrdered && keys_.back().size() > kMostKeys)
        throw std::invalid_argument("has an object of more than 10000 names");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
  std::size_t values_ = 0;
};

}  // namespace detail

// Throws std::exception where the text is no such JSON.
template <class Json = nlohmann::ordered_json>
[[nodiscard]] Json parse_json(std::string_view text) {
  detail::StrictJson<Json> strict;
  return Json::parse(text.begin(), text.end(), std::ref(strict));
}

// A whole number of type T, at most 2^62 away from 0, so that a sum of two is a number, too; nlohmann-json's own get
// takes 1e300 and true for one. Throws std::invalid_argument.
template <class T, class Json>
[[nodiscard]] T integer(const Json& value) {
  static_assert(std::is_integral_v<T> && !std::is_same_v<T, bool>);
  constexpr std::int64_t kFarthest = std::int64_t{1} << 62;
  if (!value.is_number_integer()) throw std::invalid_argument("no whole number");
  if (value.is_number_unsigned() && value.template get<std::uint64_t>() > std::uint64_t{kFarthest})
    throw std::invalid_argument("number out of range");
  const auto number = value.template get<std::int64_t>();
  if (number < -kFarthest || (std::is_unsigned_v<T> && number < 0) || (sizeof(T) < 8 && !std::in_range<T>(number)))
    throw std::invalid_argument("number out of range");
  return static_cast<T>(number);
}

}  // namespace isobit::archive
