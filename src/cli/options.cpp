#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <utility>

namespace isobit::cli {

Option& Option::type(const std::string& name) {
  option_->type_name(name);
  return *this;
}
Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::repeatable() {
  option_->take_all()->expected(1);
  return *this;
}
Option& Option::comma_separated() {
  option_->delimiter(',');
  return *this;
}
Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}
Option& Option::group(const std::string& heading) {
  option_->group(heading);
  return *this;
}
// CLI11's own ranges print the largest double.
Option& Option::at_least(std::int64_t least) {
  option_->check(CLI::Validator(
      [least](const std::string& text) {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= least) return std::string();
        return fmt::format("'{}' is not a whole number from {} up", text, least);
      },
      ""));
  return *this;
}
Option& Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}
Option& Option::checked(std::function<void(const std::string&)> check) {
  option_->each(std::move(check));
  return *this;
}
Option& Option::needs(const Option& other) {
  option_->needs(other.option_);
  return *this;
}
Option& Option::excludes(const std::string& name) {
  option_->excludes(name);
  return *this;
}

Option OptionSet::add(const std::string& names, std::string& value, const std::string& help) {
  return Option(app_.add_option(names, value, help));
}
Option OptionSet::add(const std::string& names, int& value, const std::string& help) {
  return Option(app_.add_option(names, value, help));
}
Option OptionSet::add(const std::string& names, std::int64_t& value, const std::string& help) {
  return Option(app_.add_option(names, value, help));
}
Option OptionSet::add(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  return Option(app_.add_option(names, values, help));
}
Option OptionSet::add(const std::string& names, std::vector<int>& values, const std::string& help) {
  return Option(app_.add_option(names, values, help));
}
Option OptionSet::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_.add_flag(names, value, help));
}
void OptionSet::after_dashes(std::vector<std::string>& words, const std::string& help) {
  after_dashes_ = &words;
  app_.footer("After --: " + help + "\n" + app_.get_footer());
}

}  // namespace isobit::cli
