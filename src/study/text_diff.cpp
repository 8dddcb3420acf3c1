#include "study/text_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace isobit::study {
namespace {

constexpr std::int64_t kMostEdits = 3000;
constexpr std::size_t kContext = 3;

using Lines = std::vector<std::string_view>;

// With their newlines.
Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1);
    lines.push_back(text.substr(0, end + 1));
    text.remove_prefix(end + 1);
  }
  return lines;
}

struct Edit {
  char kind;  // ' ' in both, '-' only in a, '+' only in b
  std::size_t a, b;
};

// The shortest script between a[first..a_last) and b[first..b_last), backwards; empty where it is longer than
// kMostEdits.
class Script {
 public:
  Script(const Lines& a, const Lines& b, std::size_t first, std::size_t a_last, std::size_t b_last)
      : a_(a),
        b_(b),
        first_(first),
        n_(static_cast<std::int64_t>(a_last - first)),
        m_(static_cast<std::int64_t>(b_last - first)) {}

  bool find() {
    std::vector<std::int64_t> reach(static_cast<std::size_t>(2 * kMostEdits + 3), 0);
    const auto at = [](std::int64_t k) { return static_cast<std::size_t>(k + kMostEdits + 1); };
    for (std::int64_t d = 0; d <= std::min(n_ + m_, kMostEdits); ++d) {
      rounds_.emplace_back(reach.begin() + static_cast<std::ptrdiff_t>(at(-d) - 1),
                           reach.begin() + static_cast<std::ptrdiff_t>(at(d) + 2));
      for (std::int64_t k = -d; k <= d; k += 2) {
        const bool down = k == -d || (k != d && reach[at(k - 1)] < reach[at(k + 1)]);
        std::int64_t x = down ? reach[at(k + 1)] : reach[at(k - 1)] + 1;
        while (x < n_ && x - k < m_ && same(x, x - k)) ++x;
        reach[at(k)] = x;
        if (x >= n_ && x - k >= m_) return true;
      }
    }
    return false;
  }

  // In order.
  [[nodiscard]] std::vector<Edit> edits() const {
    std::vector<Edit> list;
    std::int64_t x = n_, y = m_;
    for (auto d = static_cast<std::int64_t>(rounds_.size()) - 1; d >= 0; --d) {
      const auto& reach = rounds_[static_cast<std::size_t>(d)];  // of diagonals -d-1 .. d+1
      const auto at = [&](std::int64_t k) { return reach[static_cast<std::size_t>(k + d + 1)]; };
      const std::int64_t k = x - y;
      const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
      const std::int64_t before_x = d == 0 ? 0 : down ? at(k + 1) : at(k - 1);
      const std::int64_t before_y = d == 0 ? 0 : before_x - (down ? k + 1 : k - 1);
      while (x > before_x && y > before_y && same(x - 1, y - 1)) list.push_back(edit(' ', --x, --y));
      if (d == 0) break;
      if (down) {
        list.push_back(edit('+', x, --y));
      } else {
        list.push_back(edit('-', --x, y));
      }
    }
    std::reverse(list.begin(), list.end());
    return list;
  }

 private:
  [[nodiscard]] bool same(std::int64_t x, std::int64_t y) const {
    return a_[first_ + static_cast<std::size_t>(x)] == b_[first_ + static_cast<std::size_t>(y)];
  }
  [[nodiscard]] Edit edit(char kind, std::int64_t x, std::int64_t y) const {
    return {kind, first_ + static_cast<std::size_t>(x), first_ + static_cast<std::size_t>(y)};
  }

  const Lines &a_, &b_;
  std::size_t first_;
  std::int64_t n_, m_;
  std::vector<std::vector<std::int64_t>> rounds_;
};

std::vector<Edit> edits_of(const Lines& a, const Lines& b) {
  std::size_t first = 0, a_last = a.size(), b_last = b.size();
  while (first < std::min(a_last, b_last) && a[first] == b[first]) ++first;
  while (a_last > first && b_last > first && a[a_last - 1] == b[b_last - 1]) --a_last, --b_last;
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < first; ++i) edits.push_back({' ', i, i});
  if (Script script(a, b, first, a_last, b_last); script.find()) {
    const auto middle = script.edits();
    edits.insert(edits.end(), middle.begin(), middle.end());
  } else {
    for (std::size_t i = first; i < a_last; ++i) edits.push_back({'-', i, first});
    for (std::size_t i = first; i < b_last; ++i) edits.push_back({'+', a_last, i});
  }
  for (std::size_t i = 0; a_last + i < a.size(); ++i) edits.push_back({' ', a_last + i, b_last + i});
  return edits;
}

std::string range(std::size_t first, std::size_t count) {
  return count == 1 ? fmt::format("{}", first + 1) : fmt::format("{},{}", count == 0 ? first : first + 1, count);
}

// Edits [begin, end) as one hunk.
std::string hunk(const std::vector<Edit>& edits, std::size_t begin, std::size_t end, const Lines& a, const Lines& b) {
  std::size_t in_a = 0, in_b = 0;
  std::string body;
  for (std::size_t i = begin; i < end; ++i) {
    const Edit& edit = edits[i];
    in_a += edit.kind != '+';
    in_b += edit.kind != '-';
    const std::string_view line = edit.kind == '+' ? b[edit.b] : a[edit.a];
    body += edit.kind;
    body += line;
    if (!line.ends_with('\n')) body += "\n\\ No newline at end of file\n";
  }
  return fmt::format("@@ -{} +{} @@\n{}", range(edits[begin].a, in_a), range(edits[begin].b, in_b), body);
}

}  // namespace

std::string unified_diff(const std::string& name, std::string_view a_text, std::string_view b_text) {
  if (a_text == b_text) return "";
  const Lines a = lines_of(a_text), b = lines_of(b_text);
  const std::vector<Edit> edits = edits_of(a, b);
  std::string text = fmt::format("--- a/{}\n+++ b/{}\n", name, name);
  for (std::size_t i = 0; i < edits.size();) {
    if (edits[i].kind == ' ') {
      ++i;
      continue;
    }
    const std::size_t begin = i - std::min(i, kContext);
    std::size_t last = i;  // of the hunk's changes: others follow within twice the context
    for (std::size_t next = i; next < edits.size() && next <= last + 2 * kContext + 1; ++next) {
      if (edits[next].kind != ' ') last = next;
    }
    const std::size_t end = std::min(edits.size(), last + 1 + kContext);
    text += hunk(edits, begin, end, a, b);
    i = end;
  }
  return text;
}

}  // namespace isobit::study
