#include "cli/verify_script.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "archive/user_error.h"

namespace isobit::cli {

bool is_script(const std::string& experiment) { return ("\n" + experiment).find("\n[script]\n") != std::string::npos; }

void verify_script(const std::filesystem::path& folder, const std::vector<std::string>& options) {
  const char* named = std::getenv("ISOBIT_PYTHON");
  const std::string python = named != nullptr && named[0] != '\0' ? named : "python3";
  std::vector<std::string> words = {python, "-m", "isobit", "verify", std::filesystem::absolute(folder).string()};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(python.c_str(), pointers.data());
  throw archive::UserError(python, std::strerror(errno), "name a Python that has isobit in $ISOBIT_PYTHON");
}

}  // namespace isobit::cli
