#include "slurm/host_list.h"

#include <fmt/format.h>

#include <charconv>

#include "archive/printable.h"
#include "archive/user_error.h"

namespace isobit::slurm {
namespace {

[[noreturn]] void refuse(const std::string& place, std::string_view list, const std::string& problem) {
  const std::string shown(list.substr(0, 80));
  throw archive::UserError(
      place, fmt::format("'{}' is no list that Slurm writes: {}", archive::printable(shown), problem), "");
}

// The numbers of one bracket, "1-3,07": each as it is written in a name.
std::vector<std::string> expand_bracket(std::string_view inside, std::string_view list, const std::string& place) {
  std::vector<std::string> numbers;
  for (const std::string_view piece : split_outside_brackets(inside)) {
    const std::size_t dash = piece.find('-');
    const std::string_view low = piece.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : piece.substr(dash + 1);
    std::int64_t first = 0, last = 0;
    if (low.size() > 18 || !parse_count(low, first) || !parse_count(high, last))
      refuse(place, list, "a range in brackets has no two numbers");
    if (last < first) refuse(place, list, "a range runs downwards");
    if (static_cast<std::size_t>(last - first) >= kMostHosts - numbers.size())
      refuse(place, list, fmt::format("more than {} names", kMostHosts));
    for (std::int64_t number = first; number <= last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }
  return numbers;
}

// Each name so far with each of the endings.
std::vector<std::string> combine(const std::vector<std::string>& names, const std::vector<std::string>& endings,
                                 std::string_view list, const std::string& place) {
  if (names.size() * endings.size() > kMostHosts) refuse(place, list, fmt::format("more than {} names", kMostHosts));
  std::vector<std::string> result;
  result.reserve(names.size() * endings.size());
  for (const std::string& name : names) {
    for (const std::string& ending : endings) {
      if (name.size() + ending.size() > kLongestHost)
        refuse(place, list, fmt::format("a name of more than {} letters", kLongestHost));
      result.push_back(name + ending);
    }
  }
  return result;
}

std::vector<std::string> expand_one(std::string_view pattern, std::string_view list, const std::string& place) {
  if (pattern.empty()) refuse(place, list, "an empty name");
  std::vector<std::string> names = {""};
  while (!pattern.empty()) {
    const std::size_t open = pattern.find('[');
    const std::string_view plain = pattern.substr(0, open);
    if (plain.find_first_of("]() \t\n/") != std::string_view::npos) refuse(place, list, "a character no name has");
    names = combine(names, {std::string(plain)}, list, place);
    if (open == std::string_view::npos) break;
    const std::size_t close = pattern.find(']', open);
    if (close == std::string_view::npos) refuse(place, list, "a bracket is not closed");
    names = combine(names, expand_bracket(pattern.substr(open + 1, close - open - 1), list, place), list, place);
    pattern.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

bool parse_count(std::string_view text, std::int64_t& value) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 62;
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value <= kLargest;
}

std::vector<std::string_view> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(') ++depth;
    if ((text[i] == ']' || text[i] == ')') && depth > 0) --depth;
    if (text[i] != ',' || depth > 0) continue;
    pieces.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  pieces.push_back(text.substr(begin));
  return pieces;
}

std::vector<std::string> expand_hosts(std::string_view list, const std::string& place) {
  std::vector<std::string> hosts;
  if (list.empty()) return hosts;
  for (const std::string_view pattern : split_outside_brackets(list)) {
    const std::vector<std::string> some = expand_one(pattern, list, place);
    if (hosts.size() + some.size() > kMostHosts) refuse(place, list, fmt::format("more than {} names", kMostHosts));
    hosts.insert(hosts.end(), some.begin(), some.end());
  }
  return hosts;
}

}  // namespace isobit::slurm
