#include "archive/secret_scan.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <span>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "archive/secret_rules.h"  // made of secret_rules.txt

namespace isobit::archive {
namespace {

using re2::StringPiece;

constexpr const char* kLeftOut = "(left out)";
constexpr std::string_view kNamePlace = "{NAME}";
constexpr std::size_t kMostGroups = 4;   // of a rule's pattern, the whole match among them
constexpr std::size_t kLeastLength = 8;  // shorter values of variables stand in any text

// The lines of secret_rules.txt.
struct Rule {
  std::string kind, pattern, what;
};

std::vector<Rule> read_rules() {
  std::vector<Rule> rules;
  std::string name;
  std::istringstream lines(kSecretRules);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    Rule rule;
    std::istringstream fields(line);
    std::getline(std::getline(std::getline(fields, rule.kind, '\t'), rule.pattern, '\t'), rule.what, '\t');
    if (rule.kind == "name") name = rule.pattern;
    if (const std::size_t at = rule.pattern.find(kNamePlace); at != std::string::npos)
      rule.pattern.replace(at, kNamePlace.size(), name);
    rules.push_back(std::move(rule));
  }
  return rules;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = read_rules();
  return all;
}

// Bytes, as Python's re sees them: no text is too broken to be looked at.
std::unique_ptr<RE2> compiled(const std::string& pattern) { return std::make_unique<RE2>(pattern, RE2::Latin1); }

// The pattern of the one rule of this kind.
std::unique_ptr<RE2> only(std::string_view kind) {
  const auto found = std::find_if(rules().begin(), rules().end(), [&](const Rule& rule) { return rule.kind == kind; });
  if (found == rules().end()) throw std::logic_error(fmt::format("secret_rules.txt has no {}", kind));
  return compiled(found->pattern);
}

// A private key within a text.
struct Block {
  std::size_t begin, end;
};

// Calls `visit(number, line, offset, blocks)` for each line, without its newline, with the blocks from the first that
// reaches into it.
template <class Visit>
void each_line(std::string_view text, std::span<const Block> blocks, const Visit& visit) {
  std::size_t offset = 0;
  for (std::int64_t number = 1; offset < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', offset), text.size());
    while (!blocks.empty() && blocks.front().end <= offset) blocks = blocks.subspan(1);
    visit(number, text.substr(offset, end - offset), offset, blocks);
    offset = end + 1;
  }
}

// How far a private key reaches at most behind its first line: RSA keys of 16384 bits have some 13,000 characters.
constexpr std::size_t kLongestKey = 20'000;

// A line of a text file, or of one within a string's quotes, without what a patch, a comment or a program puts around
// it.
std::string_view bare(std::string_view line) {
  constexpr std::string_view kAround = "+-> \t\r\"'#*,;()|\\";
  const std::size_t begin = line.find_first_not_of(kAround);
  if (begin == std::string_view::npos) return {};
  line = line.substr(begin, line.find_last_not_of(kAround) - begin + 1);
  return line.starts_with("b\"") || line.starts_with("b'") ? line.substr(2) : line;
}

// A line of a key's body: base64, long, or with all kinds of characters.
bool is_key_line(std::string_view line) {
  static const RE2 base64("[A-Za-z0-9+/]{12,}={0,2}");
  if (!RE2::FullMatch(StringPiece(line.data(), line.size()), base64)) return false;
  const auto any = [&](const auto& kind) { return std::any_of(line.begin(), line.end(), kind); };
  return any([](char c) { return c >= '0' && c <= '9'; }) && any([](char c) { return c >= 'a' && c <= 'z'; }) &&
         any([](char c) { return c >= 'A' && c <= 'Z'; });
}

// Where the private keys of a text end and where its lines do: looked for once, however many keys begin.
class KeyEnds {
 public:
  explicit KeyEnds(std::string_view text) : text_(text) {
    static const RE2 pattern("-{4,5} ?END [A-Za-z0-9 ]*PRIVATE KEY(?: BLOCK)? ?-{0,5}|Private-MAC: *[0-9a-f]+");
    const StringPiece whole(text.data(), text.size());
    StringPiece mark;
    for (std::size_t at = 0; pattern.Match(whole, at, text.size(), RE2::UNANCHORED, &mark, 1);) {
      const auto begin = static_cast<std::size_t>(mark.data() - text.data());
      at = begin + mark.size();
      marks_.push_back({begin, at});
    }
  }
  // What ends a key whose first line ends at `begin`; null where nothing does that is near enough.
  [[nodiscard]] const Block* mark_after(std::size_t begin) const {
    const auto found = std::lower_bound(marks_.begin(), marks_.end(), begin,
                                        [](const Block& mark, std::size_t at) { return mark.begin < at; });
    return found != marks_.end() && found->begin - begin <= kLongestKey ? &*found : nullptr;
  }
  // The end of the first key line (the last, if there is no mark to look as far as: a key that is cut off has no more
  // than ten other lines after one another) from `begin` to `limit`, of the first `most` lines; 0 where there is none.
  // Calls come in the order of `begin`.
  [[nodiscard]] std::size_t key_lines(std::size_t begin, std::size_t limit, bool marked,
                                      std::size_t most = std::string_view::npos) {
    std::erase_if(line_ends_, [=](std::size_t end) { return end < begin; });
    scanned_ = std::max(scanned_, begin);
    std::size_t last = 0;
    int others = 0;  // headers, blank lines and prose since the last line of the body
    for (std::size_t at = begin, line = 0; at < limit && line < most && (marked || others < 10); ++line) {
      const std::size_t end = std::min(end_of_line(line), limit);
      others = is_key_line(bare(text_.substr(at, end - at))) ? 0 : others + 1;
      if (others == 0) last = end;
      if (last > 0 && marked) return last;
      at = end + (end < limit && text_[end] == '\\' ? 2 : 1);
    }
    return last;
  }

 private:
  // Of line number `line` from the one that key_lines began in: a newline, or \n as a text within quotes has it.
  std::size_t end_of_line(std::size_t line) {
    for (; line_ends_.size() <= line && scanned_ < text_.size(); ++scanned_)
      if (text_[scanned_] == '\n' || text_.substr(scanned_, 2) == "\\n") line_ends_.push_back(scanned_);
    return line < line_ends_.size() ? line_ends_[line] : text_.size();
  }

  std::string_view text_;
  std::vector<Block> marks_;
  std::deque<std::size_t> line_ends_;  // of what has been scanned, from where key_lines began last
  std::size_t scanned_ = 0;
};

// The keys that begin with these lines. Each line of the text is looked at for one key, and a few times more for first
// lines that no key follows, so that a text of nothing but first lines takes no longer than another.
std::vector<Block> keys_of(std::string_view text, const std::vector<Block>& first_lines) {
  std::vector<Block> found;
  if (first_lines.empty()) return found;
  KeyEnds ends(text);
  const Block* empty = nullptr;  // a mark before which no key line stands
  for (const Block& first : first_lines) {
    if (const Block* const mark = ends.mark_after(first.end)) {
      if (!found.empty() && found.back().end >= mark->end) continue;
      // The lines behind this one have been looked at, but not what stands behind the first line in it.
      const std::size_t most = mark == empty ? 1 : std::string_view::npos;
      if (ends.key_lines(first.end, mark->begin, true, most) > 0) {
        found.push_back({first.begin, mark->end});
      } else {
        empty = mark;
      }
      continue;
    }
    if (!found.empty() && found.back().end > first.end) continue;  // in a key that is cut off
    const std::size_t limit = std::min(first.end + kLongestKey, text.size());
    if (const std::size_t end = ends.key_lines(first.end, limit, false); end > 0) found.push_back({first.begin, end});
  }
  return found;
}

}  // namespace

// A secret within a line.
struct Hit {
  std::size_t begin = 0, length = 0;
  std::string what;  // "": a line of a private key behind its first
  bool always = false;
};

struct SecretScan::Impl {
  struct Compiled {
    std::unique_ptr<RE2> pattern;
    std::string what;  // "" where the name says it
    bool mixed;        // only values of letters and digits
    int name, value;   // groups
    int groups;        // all, the whole match among them
  };
  std::vector<std::string> allowed;
  std::vector<std::pair<std::string, std::string>> variables;  // name, value: those that sound secret
  std::vector<Compiled> rules;
  std::vector<std::unique_ptr<RE2>> private_keys;
  std::unique_ptr<RE2> file, key_file;
  std::string home;

  [[nodiscard]] std::vector<Block> blocks(std::string_view text) const;
  [[nodiscard]] bool allows(std::string_view text) const;
  // Of the line at `offset` of a text whose private keys, from the first that reaches into the line, are `blocks`.
  [[nodiscard]] std::vector<Hit> hits(std::string_view line, std::size_t offset, std::span<const Block> blocks) const;
  void more_hits(std::string_view line, std::vector<Hit>& found) const;
  void hits_of(const Compiled& rule, std::string_view line, std::vector<Hit>& found) const;
};

void SecretScan::Impl::hits_of(const Compiled& rule, std::string_view line, std::vector<Hit>& found) const {
  const StringPiece whole(line.data(), line.size());
  std::array<StringPiece, kMostGroups> groups;
  for (std::size_t at = 0; at < line.size();) {
    if (!rule.pattern->Match(whole, at, line.size(), RE2::UNANCHORED, groups.data(), rule.groups)) return;
    const StringPiece value = groups[static_cast<std::size_t>(rule.value)];
    at = static_cast<std::size_t>(value.data() - line.data()) + std::max<std::size_t>(value.size(), 1);
    const std::string text(value.data(), value.size());
    if (rule.mixed && (!RE2::PartialMatch(text, "[0-9]") || !RE2::PartialMatch(text, "[A-Za-z]") || text[0] == '-' ||
                       text == kLeftOut))
      continue;
    std::string what = rule.what;
    if (rule.name > 0) what = fmt::format("a value of {}", std::string(groups[static_cast<std::size_t>(rule.name)]));
    found.push_back({static_cast<std::size_t>(value.data() - line.data()), value.size(), what});
  }
}

// In their order, those that overlap as one.
std::vector<Block> joined(std::vector<Block> blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  std::vector<Block> result;
  for (const Block& block : blocks) {
    if (result.empty() || block.begin >= result.back().end)
      result.push_back(block);
    else
      result.back().end = std::max(result.back().end, block.end);
  }
  return result;
}

// A key's first line, with what follows it; a first line alone is no key (programs that read keys hold it).
std::vector<Block> SecretScan::Impl::blocks(std::string_view text) const {
  std::vector<Block> found, first_lines;
  const StringPiece whole(text.data(), text.size());
  for (const auto& pattern : private_keys) {
    StringPiece groups[2];
    const int count = pattern->NumberOfCapturingGroups() + 1;
    for (std::size_t at = 0; pattern->Match(whole, at, text.size(), RE2::UNANCHORED, groups, count);) {
      const auto begin = static_cast<std::size_t>(groups[0].data() - text.data());
      at = begin + groups[0].size();
      (count > 1 ? found : first_lines).push_back({begin, at});
    }
  }
  std::sort(first_lines.begin(), first_lines.end(), [](const Block& a, const Block& b) { return a.begin < b.begin; });
  for (const Block& key : keys_of(text, first_lines)) found.push_back(key);
  return joined(std::move(found));
}

bool SecretScan::Impl::allows(std::string_view text) const {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& part) { return text.find(part) != std::string_view::npos; });
}

std::vector<Hit> SecretScan::Impl::hits(std::string_view line, std::size_t offset,
                                        std::span<const Block> blocks) const {
  std::vector<Hit> found;
  for (const Block& block : blocks) {
    if (line.empty() || block.begin >= offset + line.size()) break;
    const bool first = block.begin >= offset;
    // What a patch says of the line stays.
    const std::size_t begin = first ? block.begin - offset : std::min<std::size_t>(line.find_first_not_of("+- "), 1);
    found.push_back({begin, std::min(block.end - offset, line.size()) - begin, first ? "a private key" : "", true});
  }
  if (!found.empty() || !allows(line)) more_hits(line, found);
  std::stable_sort(found.begin(), found.end(), [](const Hit& a, const Hit& b) { return a.begin < b.begin; });
  std::vector<Hit> apart;  // of those that overlap, the first
  for (Hit& hit : found) {
    if (apart.empty() || hit.begin >= apart.back().begin + apart.back().length) {
      apart.push_back(std::move(hit));
      continue;
    }
    Hit& before = apart.back();
    before.length = std::max(before.length, hit.begin + hit.length - before.begin);
    if (hit.always && !before.always) before.what = hit.what, before.always = true;
  }
  return apart;
}

void SecretScan::Impl::more_hits(std::string_view line, std::vector<Hit>& found) const {
  for (const auto& [name, value] : variables) {
    for (std::size_t at = line.find(value); at != std::string_view::npos; at = line.find(value, at + value.size()))
      found.push_back({at, value.size(), fmt::format("the value of the environment variable {}", name)});
  }
  for (const Compiled& rule : rules) hits_of(rule, line, found);
}

SecretScan::SecretScan(std::vector<std::string> allowed, const std::map<std::string, std::string>& variables,
                       std::string home)
    : impl_(std::make_unique<Impl>()) {
  std::erase(allowed, "");
  impl_->allowed = std::move(allowed);
  impl_->home = std::move(home);
  while (impl_->home.ends_with('/')) impl_->home.pop_back();
  const auto sounds_secret = only("variable");
  for (const auto& [name, value] : variables) {
    if (value.size() >= kLeastLength && value[0] != '/' && RE2::FullMatch(name, *sounds_secret))
      impl_->variables.emplace_back(name, value);
  }
  impl_->file = only("file");
  impl_->key_file = only("keyfile");
  for (const Rule& rule : rules()) {
    if (rule.kind == "private") impl_->private_keys.push_back(compiled(rule.pattern));
    if (rule.kind != "shape" && rule.kind != "mixed" && rule.kind != "named" && rule.kind != "unquoted") continue;
    auto pattern = compiled(rule.pattern);
    const auto& groups = pattern->NamedCapturingGroups();
    const int name = groups.contains("name") ? groups.at("name") : 0,
              value = groups.contains("value") ? groups.at("value") : 1;
    const int all = pattern->NumberOfCapturingGroups() + 1;
    if (all > static_cast<int>(kMostGroups)) throw std::logic_error("secret_rules.txt has a pattern of more groups");
    impl_->rules.push_back(
        {std::move(pattern), rule.what, rule.kind == "unquoted" || rule.kind == "mixed", name, value, all});
  }
}

SecretScan::~SecretScan() = default;
SecretScan::SecretScan(SecretScan&&) noexcept = default;
SecretScan& SecretScan::operator=(SecretScan&&) noexcept = default;

std::vector<Finding> SecretScan::find(const std::string& name, std::string_view text) const {
  std::vector<Finding> findings;
  each_line(text, impl_->blocks(text),
            [&](std::int64_t number, std::string_view line, std::size_t offset, auto blocks) {
              for (const Hit& hit : impl_->hits(line, offset, blocks)) {
                if (!hit.what.empty()) findings.push_back({fmt::format("{}:{}", name, number), hit.what, hit.always});
              }
            });
  return findings;
}

bool SecretScan::is_secret_file(const std::string& path) const {
  return !impl_->allows(path) && (RE2::FullMatch(path, *impl_->file) || is_key_file(path));
}

bool SecretScan::is_key_file(const std::string& path) const { return RE2::FullMatch(path, *impl_->key_file); }

std::string SecretScan::redacted(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  each_line(text, impl_->blocks(text), [&](std::int64_t, std::string_view line, std::size_t offset, auto blocks) {
    std::size_t done = 0;
    for (const Hit& hit : impl_->hits(line, offset, blocks)) {
      result.append(line, done, hit.begin - done).append(kLeftOut);
      done = hit.begin + hit.length;
    }
    result.append(line, done).push_back('\n');
  });
  if (!text.ends_with('\n') && !result.empty()) result.pop_back();
  return result;
}

std::string SecretScan::without_home(const std::string& text) const {
  std::string homes = "/home/[A-Za-z0-9._-]+|/Users/[A-Za-z0-9._-]+";
  if (!impl_->home.empty()) homes = RE2::QuoteMeta(impl_->home) + "|" + homes;
  const RE2 pattern("(^|[^A-Za-z0-9._~/-])(?:" + homes + R"()([^A-Za-z0-9._-]|$))", RE2::Latin1);
  std::string result = text;
  // Twice: neighbours share the character between them.
  if (RE2::GlobalReplace(&result, pattern, R"(\1~\2)") > 0) RE2::GlobalReplace(&result, pattern, R"(\1~\2)");
  return result;
}

std::map<std::string, std::string> environment_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

}  // namespace isobit::archive
