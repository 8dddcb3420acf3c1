#include "process/execution_place.h"

namespace isobit::process {
namespace {

std::vector<ExecutionPlace>& registered_places() {
  static std::vector<ExecutionPlace> all;
  return all;
}

}  // namespace

const std::vector<ExecutionPlace>& execution_places() { return registered_places(); }

std::vector<std::string> without_option(const std::vector<std::string>& words, const std::string& option) {
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      rest.insert(rest.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (words[i] == option) {
      ++i;  // its value
    } else if (!words[i].starts_with(option + "=")) {
      rest.push_back(words[i]);
    }
  }
  return rest;
}

ExecutionPlaceRegistration::ExecutionPlaceRegistration(ExecutionPlace place) {
  registered_places().push_back(std::move(place));
}

}  // namespace isobit::process
