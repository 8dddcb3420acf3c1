#include "report/predictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <span>
#include <string>

#include "archive/files.h"
#include "archive/sha256.h"
#include "archive/user_error.h"

namespace isobit::report {
namespace {

using archive::UserError;

}  // namespace

std::vector<PredictionsLine> last_predictions(std::string_view log, const std::filesystem::path& path,
                                              bool unfinished) {
  // Lines are long: only the last of each set is parsed with its numbers, found from the end.
  std::map<std::string, PredictionsLine> last;
  std::size_t number = static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n'));
  const auto cut_off = [&](std::string_view what) {
    return UserError(fmt::format("{}:{}", path.string(), number), std::string(what),
                     "restore the run's folder from a copy");
  };
  const auto whole = log.rfind('\n') == std::string_view::npos ? 0 : log.rfind('\n') + 1;
  if (whole != log.size() && !unfinished) {
    number += 1;
    throw cut_off("the last line is cut off");
  }
  log = log.substr(0, whole);
  for (; !log.empty(); --number) {
    const auto before = log.substr(0, log.size() - 1).rfind('\n');
    const auto begin = before == std::string_view::npos ? 0 : before + 1;
    PredictionsLine line;
    if (!archive::parse_line(log.substr(begin, log.size() - 1 - begin), line))
      throw cut_off("is no line of predictions");
    last.try_emplace(line.set, std::move(line));
    log = log.substr(0, begin);
    if (last.size() == 2) break;  // train and test: no run measures another set
  }
  std::vector<PredictionsLine> result;
  for (auto& [set, line] : last) result.push_back(std::move(line));
  return result;
}

std::vector<std::int64_t> read_targets(const std::filesystem::path& file) {
  const std::string text = archive::read_file(file, std::uint64_t{1} << 30);
  std::vector<std::int64_t> targets;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    std::int64_t value = 0;
    const auto read = std::from_chars(line.data(), line.data() + line.size(), value);
    if (read.ec != std::errc() || read.ptr != line.data() + line.size()) {
      throw UserError(fmt::format("{}:{}", file.string(), targets.size() + 1), "is no whole number",
                      "write one class index per line, in the order of the evaluated samples");
    }
    targets.push_back(value);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return targets;
}

std::string digest_of_targets(const std::vector<std::int64_t>& targets) {
  static_assert(std::endian::native == std::endian::little);
  archive::Sha256 sum;
  sum.update(std::as_bytes(std::span(targets)));
  return sum.hex();
}

std::vector<std::vector<std::int64_t>> confusion(const std::vector<std::int64_t>& targets,
                                                 const std::vector<std::int64_t>& predictions) {
  if (targets.size() != predictions.size() || targets.empty()) return {};
  std::int64_t classes = 0;
  for (const auto* list : {&targets, &predictions}) {
    const auto [lowest, highest] = std::minmax_element(list->begin(), list->end());
    if (*lowest < 0 || *highest >= kMostClasses) return {};
    classes = std::max(classes, *highest + 1);
  }
  const auto size = static_cast<std::size_t>(classes);
  std::vector<std::vector<std::int64_t>> counts(size, std::vector<std::int64_t>(size));
  for (std::size_t i = 0; i < targets.size(); ++i) {
    counts[static_cast<std::size_t>(targets[i])][static_cast<std::size_t>(predictions[i])] += 1;
  }
  return counts;
}

}  // namespace isobit::report
