#include "cli/torch_library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace isobit::cli {
namespace {

namespace fs = std::filesystem;

std::string load_error() {
  const char* message = ::dlerror();
  return message == nullptr ? "unknown reason" : message;
}

// "2.13.0" of a torch package's folder, without what stands after a '+'; "" where it does not say.
std::string version_of(const fs::path& torch) {
  std::ifstream file(torch / "version.py");
  const std::string key = "__version__ = '";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(key.size(), line.find_first_of("+'", key.size()) - key.size());
  }
  return "";
}

// What is wrong with that torch; "" where it is the one that the library was built for.
std::string problem_of(const fs::path& torch) {
  const std::string version = version_of(torch);
  if (version == ISOBIT_TORCH_VERSION) return "";
  if (version.empty()) return torch.string() + " does not say which version it is (version.py)";
  return "PyTorch " + version + " is in " + torch.string();
}

// The package's folder of the torch that was loaded; empty where none was.
fs::path loaded_torch() {
  void* library = ::dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  link_map* map = nullptr;
  fs::path folder;
  std::error_code problem;
  if (library != nullptr && ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
    folder = fs::canonical(map->l_name, problem).parent_path().parent_path();
  }
  if (library != nullptr) ::dlclose(library);
  return folder;
}

// A torch elsewhere than beside the package: what the library asks for by name is then there already.
void load_torch_of(const fs::path& folder) {
  for (const char* name : {"libc10.so", "libtorch_cpu.so", "libtorch.so"}) {
    ::dlopen((folder / "lib" / name).c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
}

TorchLibrary open_library(const fs::path& path) {
  // Asked first: symbols that another version lacks would be all that the loader tells.
  const fs::path beside = path.parent_path().parent_path() / "torch";
  std::error_code ignored;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string reason = load_error();
    const fs::path torch = loaded_torch().empty() ? beside : loaded_torch();
    const std::string other = fs::exists(torch, ignored) ? problem_of(torch) : "";
    return {nullptr, other.empty() ? reason : other};
  }
  if (const std::string problem = problem_of(loaded_torch()); !problem.empty()) return {nullptr, problem};
  using Program = int (*)(int, char**);
  if (const auto program = reinterpret_cast<Program>(::dlsym(library, "isobit_program"))) return {program, ""};
  return {nullptr, path.string() + " has no commands"};
}

}  // namespace

TorchLibrary open_torch_library() {
  std::error_code problem;
  const fs::path here = fs::read_symlink("/proc/self/exe", problem).parent_path();
  if (problem) return {nullptr, "/proc is not mounted"};
  const char* torch = std::getenv("ISOBIT_TORCH_DIR");
  if (torch != nullptr && torch[0] != '\0') {
    if (const std::string wrong = problem_of(torch); !wrong.empty()) return {nullptr, wrong};
    load_torch_of(torch);
  }
  const fs::path packaged = here.parent_path() / "libisobit_torch.so",
                 built = here / "python" / "isobit" / "libisobit_torch.so";
  TorchLibrary library{nullptr, "neither " + packaged.string() + " nor " + built.string() + " exists", true};
  for (const fs::path& place : {packaged, built}) {
    if (!fs::exists(place, problem)) continue;
    library = open_library(place);
    if (library.program != nullptr) break;
  }
  return library;
}

}  // namespace isobit::cli
