#include "archive/recorded_settings.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace isobit::archive {

std::string recorded_setting(const std::string& text, const char* key) {
  const auto environment = nlohmann::json::parse(text, nullptr, false);
  const auto* run = environment.is_object() && environment.contains("run") ? &environment["run"] : nullptr;
  const bool there = run != nullptr && run->is_object() && run->contains(key) && (*run)[key].is_string();
  return there ? (*run)[key].get<std::string>() : std::string();
}

int recorded_threads(const std::string& environment) {
  const std::string text = recorded_setting(environment, "threads");
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  const bool sound = error == std::errc() && end == text.data() + text.size() && threads >= 1 && threads <= 1024;
  return sound ? threads : 0;
}

}  // namespace isobit::archive
