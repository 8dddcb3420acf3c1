#include "archive/secret_scan.h"

#include <fmt/format.h>
#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace isobit::archive {
namespace {

using re2::StringPiece;

constexpr const char* kLeftOut = "(left out)";
constexpr std::size_t kLeastLength = 8;  // shorter values of variables stand in any text

// What a name of a secret ends in; letters before it are another word ("tokenizer_config" does not end so).
constexpr const char* kName = "(?i:[A-Z0-9_.-]*?(?:secret|token|passwd|password|passphrase|credentials?|"
                              "(?:api|access|auth|private|account|encryption|signing|secret)[_-]?key|[a-z]+_pat))";

struct Rule {
  std::string pattern;  // the secret is its first group; the name, where there is one, is its group "name"
  const char* what;     // "" where the name says it
};

std::vector<Rule> rules() {
  const std::string name = std::string(R"((?:^|[^A-Za-z0-9_])(?P<name>)") + kName + R"(|[A-Z0-9_]*_KEY))";
  return {
      {R"((-----BEGIN [A-Z ]*PRIVATE KEY-----))", "a private key"},
      {R"(\b((?:AKIA|ASIA)[0-9A-Z]{16})\b)", "an AWS access key"},
      {R"(\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}))", "a GitHub token"},
      {R"(\b(glpat-[A-Za-z0-9_-]{20,}))", "a GitLab token"},
      {R"(\b(hf_[A-Za-z0-9]{30,}))", "a Hugging Face token"},
      {R"(\b(sk-[A-Za-z0-9_-]{20,}))", "an API key"},
      {R"(\b(xox[abprs]-[A-Za-z0-9-]{10,}))", "a Slack token"},
      {R"(\b(AIza[0-9A-Za-z_-]{35}))", "a Google API key"},
      {R"(\b(pypi-[A-Za-z0-9_-]{40,}|npm_[A-Za-z0-9]{36}))", "a package registry's token"},
      {R"(\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}))", "a signed web token"},
      {R"([A-Za-z][A-Za-z0-9+.-]*://([^/\s:@"'<>{}()]*:[^/\s@"'<>{}()]+)@)", "user and password in a URL"},
      // NAME = "value", "name": "value", also where the quotes are escaped
      {name + R"(\\?["']?\]?\s*(?::\s*[A-Za-z]+\s*)?[:=]\s*[rbu]?\\?["'](?P<value>[A-Za-z0-9+/=_.~!@#$%^&*:-]{6,})\\?["'])", ""},
      // --token value, NAME=value, name: value; with a digit, so that words of a program pass
      {name + R"((?:\s*[:=]\s*|\s+)(?P<value>[A-Za-z0-9+/=_~!@#$%^&*-]{8,})(?:\s|\\n|$))", "unquoted"},
  };
}

bool sounds_secret(const std::string& name) {
  return RE2::FullMatch(name, std::string("(?:") + kName + "|[A-Z0-9_]*(?:KEY|PASS|AUTH))");
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
    std::string what;
    int name, value;  // groups
  };
  std::vector<std::string> allowed;
  std::vector<std::pair<std::string, std::string>> variables;  // name, value: those that sound secret
  std::vector<Compiled> rules;
  std::string home;

  [[nodiscard]] std::vector<Hit> hits(std::string_view line) const;
  void hits_of(const Compiled& rule, std::string_view line, std::vector<Hit>& found) const;
};

void SecretScan::Impl::hits_of(const Compiled& rule, std::string_view line, std::vector<Hit>& found) const {
  const StringPiece whole(line.data(), line.size());
  std::vector<StringPiece> groups(static_cast<std::size_t>(rule.pattern->NumberOfCapturingGroups()) + 1);
  for (std::size_t at = 0; at < line.size();) {
    if (!rule.pattern->Match(whole, at, line.size(), RE2::UNANCHORED, groups.data(), static_cast<int>(groups.size()))) return;
    const StringPiece value = groups[static_cast<std::size_t>(rule.value)];
    at = static_cast<std::size_t>(value.data() - line.data()) + std::max<std::size_t>(value.size(), 1);
    const std::string text(value.data(), value.size());
    std::string what = rule.what;
    if (rule.name > 0) {
      const std::string name(groups[static_cast<std::size_t>(rule.name)]);
      if (what == "unquoted" && (!RE2::PartialMatch(text, "[0-9]") || !RE2::PartialMatch(text, "[A-Za-z]") || text[0] == '-')) continue;
      what = fmt::format("a value of {}", name);
    }
    found.push_back({static_cast<std::size_t>(value.data() - line.data()), value.size(), what});
  }
}

std::vector<Hit> SecretScan::Impl::hits(std::string_view line) const {
  std::vector<Hit> found;
  if (std::any_of(allowed.begin(), allowed.end(), [&](const std::string& text) { return line.find(text) != std::string_view::npos; })) return found;
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

SecretScan::SecretScan(std::vector<std::string> allowed, const std::map<std::string, std::string>& variables, std::string home)
    : impl_(std::make_unique<Impl>()) {
  std::erase(allowed, "");
  impl_->allowed = std::move(allowed);
  impl_->home = std::move(home);
  while (impl_->home.ends_with('/')) impl_->home.pop_back();
  for (const auto& [name, value] : variables) {
    if (value.size() >= kLeastLength && value[0] != '/' && sounds_secret(name)) impl_->variables.emplace_back(name, value);
  }
  for (const Rule& rule : rules()) {
    auto pattern = std::make_unique<RE2>(rule.pattern, RE2::Quiet);
    const auto& groups = pattern->NamedCapturingGroups();
    const int name = groups.contains("name") ? groups.at("name") : 0, value = groups.contains("value") ? groups.at("value") : 1;
    impl_->rules.push_back({std::move(pattern), rule.what, name, value});
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
  if (std::any_of(impl_->allowed.begin(), impl_->allowed.end(), [&](const std::string& text) { return path.find(text) != std::string::npos; }))
    return false;
  return RE2::FullMatch(path, R"((?:.*/)?(?:\.env(?:\..*)?|\.netrc|\.npmrc|\.pypirc|id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|p12|pfx|key|keystore)))");
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
  const RE2 pattern("(^|[^A-Za-z0-9._~/-])(?:" + homes + R"()([^A-Za-z0-9._-]|$))");
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
