#include "archive/environment.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "archive/code_version.h"  // generated at build time

namespace isobit::archive {
namespace {

using Json = nlohmann::ordered_json;

#if defined(__clang__)
constexpr const char* kCompiler = "clang++ " __clang_version__;
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
#ifdef NDEBUG
constexpr const char* kBuild = "release";
#else
constexpr const char* kBuild = "debug";
#endif

// What may change how a run is executed and names no person, place or secret.
constexpr const char* kVariables[] = {"ATEN_CPU_CAPABILITY",
                                      "CUBLAS_WORKSPACE_CONFIG",
                                      "CUDA_VISIBLE_DEVICES",
                                      "DNNL_MAX_CPU_ISA",
                                      "GOMP_CPU_AFFINITY",
                                      "ISOBIT_CONTAINER",
                                      "KMP_AFFINITY",
                                      "KMP_BLOCKTIME",
                                      "LANG",
                                      "LC_ALL",
                                      "MALLOC_ARENA_MAX",
                                      "MKL_CBWR",
                                      "MKL_ENABLE_INSTRUCTIONS",
                                      "MKL_NUM_THREADS",
                                      "OMP_DYNAMIC",
                                      "OMP_NUM_THREADS",
                                      "OMP_PLACES",
                                      "OMP_PROC_BIND",
                                      "ONEDNN_MAX_CPU_ISA",
                                      "SLURM_CPUS_PER_TASK",
                                      "SLURM_NNODES",
                                      "SLURM_NTASKS",
                                      "TZ"};

// CPU features that decide which kernels can run.
const std::set<std::string> kFeatures = {"avx",      "avx2",  "fma", "avx512f", "avx512vl", "avx512dq",
                                         "avx512bw", "asimd", "vsx", "f16c",    "bmi2"};

std::string value_after(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto end = line.find(separator);
    if (line.compare(0, key.size(), key) != 0 || end == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t\"", end + 1);
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return "";
}

Json hardware() {
  Json features = Json::array();
  std::istringstream words(value_after("/proc/cpuinfo", "flags", ':'));
  for (std::string word; words >> word;) {
    if (kFeatures.contains(word)) features.push_back(word);
  }
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = ::sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  utsname system{};
  ::uname(&system);
  return {{"architecture", system.machine}, {"cpu", cpu_name()},
          {"features", features},           {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"cores_allowed", cores},         {"memory", value_after("/proc/meminfo", "MemTotal", ':')}};
}

Json libraries() {
  utsname system{};
  ::uname(&system);
  return {{"system", value_after("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", fmt::format("{} {}", system.sysname, system.release)},
          {"libc", ::gnu_get_libc_version()}};
}

// A path may name a person's home: such a value is said to exist, no more.
Json variables() {
  Json result = Json::object();
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    result[name] = std::string(value).find('/') == std::string::npos ? value : "(a path)";
  }
  return result;
}

}  // namespace

std::string environment_json(const std::map<std::string, std::string>& extra, const std::string& contract) {
  const Json object{
      {"format", "isobit-environment-1"},
      {"program", {{"version", kProgramVersion}, {"code", kCodeVersion}, {"compiler", kCompiler}, {"build", kBuild}}},
      {"contract", contract},
      {"hardware", hardware()},
      {"libraries", libraries()},
      {"run", extra},
      {"variables", variables()}};
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string program_version() {
  return fmt::format("isobit {} ({}, {}, {})", kProgramVersion, kCodeVersion, kCompiler, kBuild);
}

std::string cpu_name() { return value_after("/proc/cpuinfo", "model name", ':'); }

}  // namespace isobit::archive
