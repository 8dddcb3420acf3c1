// Slurm's short form for many names, written out, and other small things of its syntax.
//
// A list of hosts, "n[1-3,07-09],login,rack[0-1]node[01-02]-ib", has one name for each combination of what stands in
// brackets, the last bracket fastest: rack0node01-ib, rack0node02-ib, rack1node01-ib ... A range counts with as many
// digits as its first number is written with.
//
// `place` stands in error messages: the variable or program that the text came from. UserError for any other text, and
// for more than kMostHosts names, or one of more than kLongestHost letters. No state; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::slurm {

inline constexpr std::size_t kMostHosts = 65'536, kLongestHost = 255;  // the second is DNS's (RFC 1035)

// In the order in which they are written; names may repeat. "" is the empty list.
[[nodiscard]] std::vector<std::string> expand_hosts(std::string_view list, const std::string& place);

// What stands between commas that no bracket of either kind holds; an empty piece stays one.
[[nodiscard]] std::vector<std::string_view> split_outside_brackets(std::string_view text);

// A whole number from 0 up in decimal digits alone; nothing for any other text, or one above 2^62.
[[nodiscard]] bool parse_count(std::string_view text, std::int64_t& value);

}  // namespace isobit::slurm
