#include "cli/usage.h"

#include <fmt/format.h>

#include <cctype>
#include <vector>

#include "archive/suggest.h"
#include "archive/user_error.h"
#include "component/component.h"

namespace isobit::cli {
namespace {

// python/isobit/__main__.py answers these before it calls the program.
struct PackageCommand {
  const char* name;
  const char* summary;
};
constexpr PackageCommand kPackageCommands[] = {
    {"check", "Run a script's first steps, and list all that isobit would refuse"},
    {"launch", "Run a script in several processes that share the grains of its steps"},
};

std::string lower_first(std::string text) {
  if (text.size() > 1 && (text[1] == ' ' || std::islower(text[1]) != 0))
    text[0] = static_cast<char>(std::tolower(text[0]));
  return text;
}

// "isobit show last": the first of a command's examples.
std::string first_example(const Command& command) { return command.example.substr(0, command.example.find('\n')); }

// An option that nobody took: the nearest one of the command that was meant.
std::string unknown_option(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  component::require_built(component::Brings::execution_option, name, name);
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) options.push_back("--" + known);
  }
  const std::string nearest = name[0] == '-' ? archive::nearest(name, options) : "";
  const char* kind = name[0] == '-' ? "option" : "argument";
  return fmt::format("unknown {} '{}'{}", kind, argument, nearest.empty() ? "" : ", did you mean '" + nearest + "'?");
}

// The first argument without a dash that must be given and was not.
std::string missing_argument(const CLI::App& app, const Command& command) {
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional() || !option->get_required() || option->count() > 0) continue;
    return fmt::format("{}: {} is missing: {}; for example: {}", app.get_name(), option->get_single_name(),
                       lower_first(option->get_description()), first_example(command));
  }
  return "";
}

// An option at the end of the line, without its value.
std::string missing_value(const CLI::App& app, const std::string& what) {
  const CLI::Option* option = app.get_option_no_throw(what.substr(0, what.find(':')));
  if (option == nullptr) return "";
  return fmt::format("{} needs a value: {}", option->get_name(), lower_first(option->get_description()));
}

}  // namespace

std::string heading(Group group) {
  switch (group) {
    case Group::train: return "Train";
    case Group::prove: return "Prove";
    case Group::see: return "See";
    case Group::scale: return "Scale";
    case Group::data: return "Data";
    case Group::applications: break;
  }
  return "Applications";
}

std::string program_footer() {
  std::string text = "Commands of the Python package (python -m isobit COMMAND, or the isobit beside that python):\n";
  for (const PackageCommand& command : kPackageCommands) {
    text += fmt::format("  {:<28}{}\n", command.name, command.summary);
  }
  std::string missing;
  for (const component::Component& one : component::components()) {
    if (!one.built) missing += fmt::format("  {:<28}{}\n", one.name, one.summary);
  }
  if (!missing.empty())
    text += "\nComponents that are not built here (in a clone: scripts/build release NAME):\n" + missing;
  return text + "\nExample:\n  isobit run examples/fashion-lenet5.toml\nEach command: isobit COMMAND --help";
}

void check_first_word(int argc, char** argv) {
  if (argc < 2) return;
  const std::string word = argv[1];
  if (word == "-h" || word == "--help" || word == "--version") return;
  std::vector<std::string> names = {"--help", "--version"};
  for (const Command& command : commands()) {
    if (command.name == word) return;
    names.push_back(command.name);
  }
  for (const PackageCommand& command : kPackageCommands) {
    if (word == command.name) {
      throw archive::UserError("", fmt::format("'{}' is a command of the Python package", word),
                               fmt::format("python -m isobit {}, or the isobit that pip installs: in a clone, "
                                           ".venv/bin/isobit {}",
                                           word, word));
    }
    names.emplace_back(command.name);
  }
  component::require_built(component::Brings::command, word, word);
  const std::string nearest = archive::nearest(word, names);
  const std::string remedy = nearest.empty() ? "see isobit --help" : "did you mean '" + nearest + "'?";
  throw archive::UserError("", fmt::format("unknown {} '{}'", word[0] == '-' ? "option" : "command", word), remedy);
}

std::string usage_message(const CLI::App& app, const Command* command, const CLI::ParseError& error) {
  const std::string what = error.what();
  std::string message;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto rest = app.remaining(true);
    if (!rest.empty() && !rest[0].empty()) message = unknown_option(app, rest[0]);
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && command != nullptr) {
    message = missing_argument(app, *command);
  } else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    message = missing_value(app, what);
  } else if (const std::string cryptic = "Could not convert: "; what.rfind(cryptic, 0) == 0) {
    message = "cannot read " + what.substr(cryptic.size());
  }
  if (message.empty()) message = what;
  for (char& c : message) c = c == '\n' ? ' ' : c;
  return message;
}

}  // namespace isobit::cli
