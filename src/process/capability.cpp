#include "process/capability.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "archive/user_error.h"

namespace isobit::process {
namespace {

using archive::UserError;

struct Capability {
  const char *level, *onednn, *mkl;
};
// As Intel's two libraries call the levels.
constexpr Capability kCapabilities[] = {
    {"default", "SSE41", "SSE4_2"}, {"avx2", "AVX2", "AVX2"}, {"avx512", "AVX512_CORE", "AVX512"}};

// What decides stock's bits, and can neither name a file nor load one.
constexpr const char* kRepeated[] = {"ATEN_CPU_CAPABILITY",     "DNNL_MAX_CPU_ISA", "KMP_AFFINITY", "MKL_CBWR",
                                     "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS",  "OMP_DYNAMIC",  "OMP_NUM_THREADS",
                                     "ONEDNN_MAX_CPU_ISA"};

// The tests of PyTorch's own choice.
bool has([[maybe_unused]] const std::string& level) {
  if (level == "default") return true;
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (level == "avx2") return avx2;
  if (level == "avx512")
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#endif
  return false;
}

bool is_plain(const std::string& value) {
  return !value.empty() && value.size() <= 64 && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == ',' || c == '=' || c == '-';
  });
}

std::string text_at(const nlohmann::json& environment, const char* section, const char* key) {
  const auto part = environment.find(section);
  if (part == environment.end() || !part->is_object()) return "";
  const auto found = part->find(key);
  return found != part->end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::vector<std::string> capability_levels() {
  std::vector<std::string> levels;
  for (const Capability& one : kCapabilities) {
    if (has(one.level)) levels.emplace_back(one.level);
  }
  return levels;
}

void expect_capability(const std::string& level, const std::string& place) {
  const bool known = std::any_of(std::begin(kCapabilities), std::end(kCapabilities),
                                 [&](const Capability& one) { return level == one.level; });
  if (known && has(level)) return;
  throw UserError(place, known ? fmt::format("this CPU lacks {}", level) : "unknown capability of a CPU",
                  fmt::format("choose another: this machine has {}", fmt::join(capability_levels(), ", ")));
}

std::vector<std::string> capability_variables(const std::string& level) {
  for (const Capability& one : kCapabilities) {
    if (level != one.level) continue;
    std::vector<std::string> variables = {fmt::format("ATEN_CPU_CAPABILITY={}", level)};
#if defined(__x86_64__)
    variables.push_back(fmt::format("MKL_ENABLE_INSTRUCTIONS={}", one.mkl));
    variables.push_back(fmt::format("ONEDNN_MAX_CPU_ISA={}", one.onednn));
#endif
    return variables;
  }
  return {};
}

std::vector<std::string> recorded_variables(const std::string& environment) {
  const auto object = nlohmann::json::parse(environment, nullptr, false);
  if (!object.is_object()) return {};
  std::vector<std::string> variables;
  for (const char* name : kRepeated) {
    const std::string value = text_at(object, "variables", name);
    if (is_plain(value)) variables.push_back(fmt::format("{}={}", name, value));
  }
  if (!text_at(object, "variables", "ATEN_CPU_CAPABILITY").empty()) return variables;
  std::string level = text_at(object, "run", "cpu_capability");
  std::transform(level.begin(), level.end(), level.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string own = capability_levels().back();
  if (level == own || !has(level)) return variables;
  const std::vector<std::string> more = capability_variables(level);
  variables.insert(variables.end(), more.begin(), more.end());
  return variables;
}

void require_variables(const std::vector<std::string>& variables) {
  for (const std::string& variable : variables) {
    const auto equals = variable.find('=');
    const char* value = std::getenv(variable.substr(0, equals).c_str());
    if (value == nullptr || value != variable.substr(equals + 1)) throw BeginAnew{variables};
  }
}

int begin_anew(const BeginAnew& request) {
  for (const std::string& variable : request.variables) {
    const auto equals = variable.find('=');
    ::setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
  }
  std::ifstream file("/proc/self/cmdline", std::ios::binary);  // whose size stat does not know
  std::string words{std::istreambuf_iterator<char>(file), {}};
  std::vector<char*> arguments;
  for (std::size_t i = 0; i < words.size(); i += std::strlen(&words[i]) + 1) arguments.push_back(&words[i]);
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  fmt::print(stderr, "isobit: cannot begin anew with {}: {}\n", fmt::join(request.variables, " "),
             std::strerror(errno));
  return 2;
}

}  // namespace isobit::process
