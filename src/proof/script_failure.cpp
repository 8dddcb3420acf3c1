#include "proof/script_failure.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "archive/printable.h"
#include "proof/sandbox.h"

namespace isobit::proof {
namespace {

namespace fs = std::filesystem;
using archive::printable;
using archive::UserError;

constexpr int kShownLines = 15;

// What Python quotes after the last such text; "" where there is none that can be taken as it stands.
std::string quoted_after(const std::string& printed, std::string_view text) {
  const std::size_t at = printed.rfind(text);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + text.size();
  const char quote = begin < printed.size() ? printed[begin] : ' ';
  const std::size_t end = printed.find_first_of(std::string(1, quote) + "\\\n", begin + 1);
  if ((quote != '\'' && quote != '"') || end == std::string::npos || printed[end] != quote) return "";
  return printed.substr(begin + 1, end - begin - 1);
}

// The place in the user's file system of what the program calls by that name.
fs::path outside(const ScriptPlace& place, const fs::path& name) {
  if (name.is_absolute() && !lies_in(name, kProgramFolder)) return name;
  const fs::path inner = name.is_absolute() ? name.lexically_relative(kProgramFolder) : name;
  return place.beside.empty() ? inner : place.beside / inner;
}

// Of what Python calls by that name, file or folder beside the program; "" where there is none.
fs::path module_beside(const ScriptPlace& place, const std::string& name) {
  if (place.beside.empty() || name.find('/') != std::string::npos) return {};
  const std::string first = name.substr(0, name.find('.'));
  for (const fs::path& folder : {place.beside / fs::path(place.name).parent_path(), place.beside}) {
    std::error_code error;
    if (fs::is_directory(folder / first, error)) return folder / first;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const fs::path file = it->path().filename();
      const std::string ending = file.extension().string();
      if (file.string().starts_with(first + ".") && (ending == ".py" || ending == ".so" || ending == ".pyc"))
        return it->path();
    }
  }
  return {};
}

constexpr const char* kReadCode = "if you trust it: --read {}; the verdict then names it";

}  // namespace

void show_script_output(const std::string& text) {
  std::size_t begin = text.find_last_not_of('\n');
  if (begin == std::string::npos) return;
  const std::string_view kept = std::string_view(text).substr(0, begin + 1);
  for (int lines = 0; lines < kShownLines && begin != std::string_view::npos && begin > 0; ++lines)
    begin = kept.find_last_of('\n', begin - 1);
  std::string_view rest = begin == std::string_view::npos || begin == 0 ? kept : kept.substr(begin + 1);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    fmt::print(stderr, "script| {}\n", printable(line));
  }
}

UserError script_failure(const ScriptPlace& place, const std::string& problem, const std::string& printed) {
  const std::string module = quoted_after(printed, "No module named ");
  if (const fs::path file = module_beside(place, module); !module.empty() && !file.empty()) {
    return {place.name,
            fmt::format("{}; it imports {}, and {} is in neither the recorded sources nor the commit", problem,
                        printable(module), printable(file.string())),
            fmt::format(kReadCode, printable(file.string()))};
  }
  const std::string missing = quoted_after(printed, "No such file or directory: ");
  if (!missing.empty()) {
    const fs::path file = outside(place, missing);
    std::error_code error;
    const fs::path real = fs::weakly_canonical(file, error);
    const bool there = !error && fs::exists(real, error);
    const std::string what = fmt::format("{}; it misses {}", problem, printable(missing));
    if (there && !place.beside.empty() && lies_in(real, place.beside))
      return {place.name, what + ", which is not shown to it", fmt::format(kReadCode, printable(real.string()))};
    if (there && place.sandboxed)
      return {place.name, what, fmt::format("if it may read that: --read {}", printable(real.string()))};
    if (fs::path(missing).is_absolute() && file == fs::path(missing))
      return {place.name, what, fmt::format("get that file, then --read {}", printable(missing))};
    return {place.name, what, "--repository DIR names the folder that the program's data lie in"};
  }
  const std::string barred = quoted_after(printed, "Read-only file system: ");
  if (!barred.empty() && place.sandboxed) {
    return {place.name, fmt::format("{}; it cannot write {}", problem, printable(barred)),
            "in its sandbox it writes in its own folder, its home and /tmp"};
  }
  if (printed.find("ImportError: ") != std::string::npos ||
      printed.find("cannot open shared object") != std::string::npos) {
    return {
        place.name, problem,
        "what it printed last is above; code beside it that the record does not have is hidden: --read PATH shows it"};
  }
  return {place.name, problem, "what it printed last is above"};
}

}  // namespace isobit::proof
