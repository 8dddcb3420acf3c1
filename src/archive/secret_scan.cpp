#include "archive/secret_scan.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "archive/secret_rules.h"  // made of secret_rules.txt

namespace isobit::archive {
namespace {

using re2::StringPiece;

constexpr const char* kLeftOut = "(left out)";
constexpr std::string_view kNamePlace = "{NAME}";
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

// Calls `visit(number, line)` for each line, without its newline.
template <class Visit>
void each_line(std::string_view text, const Visit& visit) {
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    visit(number, text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace

// A secret within a line.
struct Hit {
  std::size_t begin = 0, length = 0;
  std::string what;
};

struct SecretScan::Impl {
  struct Compiled {
    std::unique_ptr<RE2> pattern;
    std::string what;  // "" where the name says it
    bool mixed;        // only values of letters and digits
    int name, value;   // groups
  };
  std::vector<std::string> allowed;
  std::vector<std::pair<std::string, std::string>> variables;  // name, value: those that sound secret
  std::vector<Compiled> rules;
  std::unique_ptr<RE2> file;
  std::string home;

  [[nodiscard]] std::vector<Hit> hits(std::string_view line) const;
  void hits_of(const Compiled& rule, std::string_view line, std::vector<Hit>& found) const;
};

void SecretScan::Impl::hits_of(const Compiled& rule, std::string_view line, std::vector<Hit>& found) const {
  const StringPiece whole(line.data(), line.size());
  std::vector<StringPiece> groups(static_cast<std::size_t>(rule.pattern->NumberOfCapturingGroups()) + 1);
  for (std::size_t at = 0; at < line.size();) {
    if (!rule.pattern->Match(whole, at, line.size(), RE2::UNANCHORED, groups.data(), static_cast<int>(groups.size())))
      return;
    const StringPiece value = groups[static_cast<std::size_t>(rule.value)];
    at = static_cast<std::size_t>(value.data() - line.data()) + std::max<std::size_t>(value.size(), 1);
    const std::string text(value.data(), value.size());
    std::string what = rule.what;
    if (rule.name > 0) {
      const std::string name(groups[static_cast<std::size_t>(rule.name)]);
      if (rule.mixed && (!RE2::PartialMatch(text, "[0-9]") || !RE2::PartialMatch(text, "[A-Za-z]") || text[0] == '-'))
        continue;
      what = fmt::format("a value of {}", name);
    }
    found.push_back({static_cast<std::size_t>(value.data() - line.data()), value.size(), what});
  }
}

std::vector<Hit> SecretScan::Impl::hits(std::string_view line) const {
  std::vector<Hit> found;
  if (std::any_of(allowed.begin(), allowed.end(),
                  [&](const std::string& text) { return line.find(text) != std::string_view::npos; }))
    return found;
  for (const auto& [name, value] : variables) {
    for (std::size_t at = line.find(value); at != std::string_view::npos; at = line.find(value, at + value.size()))
      found.push_back({at, value.size(), fmt::format("the value of the environment variable {}", name)});
  }
  for (const Compiled& rule : rules) hits_of(rule, line, found);
  std::stable_sort(found.begin(), found.end(), [](const Hit& a, const Hit& b) { return a.begin < b.begin; });
  std::vector<Hit> apart;  // of those that overlap, the first
  for (Hit& hit : found) {
    if (apart.empty() || hit.begin >= apart.back().begin + apart.back().length) {
      apart.push_back(std::move(hit));
    } else {
      apart.back().length = std::max(apart.back().length, hit.begin + hit.length - apart.back().begin);
    }
  }
  return apart;
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
  for (const Rule& rule : rules()) {
    if (rule.kind != "shape" && rule.kind != "named" && rule.kind != "unquoted") continue;
    auto pattern = compiled(rule.pattern);
    const auto& groups = pattern->NamedCapturingGroups();
    const int name = groups.contains("name") ? groups.at("name") : 0,
              value = groups.contains("value") ? groups.at("value") : 1;
    impl_->rules.push_back({std::move(pattern), rule.what, rule.kind == "unquoted", name, value});
  }
}

SecretScan::~SecretScan() = default;
SecretScan::SecretScan(SecretScan&&) noexcept = default;
SecretScan& SecretScan::operator=(SecretScan&&) noexcept = default;

std::vector<Finding> SecretScan::find(const std::string& name, std::string_view text) const {
  std::vector<Finding> findings;
  each_line(text, [&](std::int64_t number, std::string_view line) {
    for (const Hit& hit : impl_->hits(line)) findings.push_back({fmt::format("{}:{}", name, number), hit.what});
  });
  return findings;
}

bool SecretScan::is_secret_file(const std::string& path) const {
  if (std::any_of(impl_->allowed.begin(), impl_->allowed.end(),
                  [&](const std::string& text) { return path.find(text) != std::string::npos; }))
    return false;
  return RE2::FullMatch(path, *impl_->file);
}

std::string SecretScan::redacted(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  each_line(text, [&](std::int64_t, std::string_view line) {
    std::size_t done = 0;
    for (const Hit& hit : impl_->hits(line)) {
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
