// Where a run executes, as an option that a component adds to the commands that train or verify: --machine NAME
// composes a machine and runs the command there. Registered before main; thread-safe afterwards.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace isobit::process {

struct ExecutionPlace {
  std::string option;      // "--machine"
  std::string type, help;  // for --help: NAME, and one line
  // Executes this program's command line `words` (without the program's name and this option) at the place that `value`
  // names, and waits for it. The command's exit code. archive::UserError where there is no such place.
  std::function<int(const std::string& value, const std::vector<std::string>& words)> execute;
};

[[nodiscard]] const std::vector<ExecutionPlace>& execution_places();

// The words without the option and its value, in both spellings; words after "--" are another program's.
[[nodiscard]] std::vector<std::string> without_option(const std::vector<std::string>& words, const std::string& option);

class ExecutionPlaceRegistration {
 public:
  explicit ExecutionPlaceRegistration(ExecutionPlace place);
};

}  // namespace isobit::process
