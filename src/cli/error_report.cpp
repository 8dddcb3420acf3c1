#include "cli/error_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "archive/user_error.h"

namespace isobit::cli {

bool asks_for_json(int argc, char** argv) {
  char** const end = std::find(argv, argv + argc, std::string_view("--"));
  return std::find(argv, end, std::string_view("--json")) != end;
}

int report_error(const std::string& message, bool json) {
  fmt::print(stderr, "isobit: {}\n", message);
  if (json) {
    const nlohmann::ordered_json error{{"error", message}};
    fmt::print("{}\n", error.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);
  }
  return archive::kUserErrorExit;
}

}  // namespace isobit::cli
