// The options of a subcommand, over CLI11, whose headers cost six seconds in every unit that sees them.
//
//   void declare(OptionSet& options, Arguments& a) {
//     options.add("--runs", a.runs, "The archive: a folder of runs").type("DIR");
//     options.flag("--json", a.json, "One JSON object on stdout");
//   }
//
// A name without a dash is an argument that stands in its place on the line. Values are written when the line is
// parsed: they must live until then. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace isobit::cli {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& type(const std::string& name);  // as help shows it: FILE, N
  Option& required();
  Option& repeatable();       // of a list: once per value
  Option& comma_separated();  // of a list: all in one word
  Option& show_default();
  Option& group(const std::string& heading);
  Option& at_least(std::int64_t least);                            // a whole number from `least` up
  Option& one_of(const std::vector<std::string>& words);           // of a list: each
  Option& checked(std::function<void(const std::string&)> check);  // which throws what the user is told
  Option& needs(const Option& other);
  Option& excludes(const std::string& name);

 private:
  CLI::Option* option_;
};

class OptionSet {
 public:
  // `line`: the words of this command line, without the program's name.
  OptionSet(CLI::App& app, std::vector<std::string> line) : app_(app), line_(std::move(line)) {}

  Option add(const std::string& names, std::string& value, const std::string& help);
  Option add(const std::string& names, int& value, const std::string& help);
  Option add(const std::string& names, std::int64_t& value, const std::string& help);
  Option add(const std::string& names, std::vector<std::string>& values, const std::string& help);
  Option add(const std::string& names, std::vector<int>& values, const std::string& help);
  Option flag(const std::string& names, bool& value, const std::string& help);
  // Words after "--", which are not this program's; commands without this have none.
  void after_dashes(std::vector<std::string>& words, const std::string& help);
  [[nodiscard]] std::vector<std::string>* words_after_dashes() const { return after_dashes_; }
  [[nodiscard]] const std::vector<std::string>& line() const { return line_; }

 private:
  CLI::App& app_;
  std::vector<std::string> line_;
  std::vector<std::string>* after_dashes_ = nullptr;
};

}  // namespace isobit::cli
