// The program: parses, runs one subcommand, turns errors into one line and an exit code.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "archive/suggest.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/version.h"

namespace {

using isobit::cli::Action;

// A first word that is no subcommand: CLI11 would only say that it was not expected.
void check_subcommand(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  const std::string word = argv[1];
  std::vector<std::string> names;
  for (const auto& command : isobit::cli::commands()) {
    if (command.name == word) return;
    names.push_back(command.name);
  }
  const std::string nearest = isobit::archive::nearest(word, names);
  const std::string remedy = nearest.empty() ? "see isobit --help" : "did you mean '" + nearest + "'?";
  throw isobit::archive::UserError("", "unknown command '" + word + "'", remedy);
}

// An option that nobody took: the nearest one of the command that was meant.
std::string unknown_option(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  std::vector<std::string> options;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) options.push_back("--" + known);
  }
  const std::string nearest = name[0] == '-' ? isobit::archive::nearest(name, options) : "";
  const char* kind = name[0] == '-' ? "option" : "argument";
  return fmt::format("unknown {} '{}'{}", kind, argument, nearest.empty() ? "" : ", did you mean '" + nearest + "'?");
}

int usage_error(const std::string& command, std::string message) {
  for (char& c : message) c = c == '\n' ? ' ' : c;
  const std::string help = command.empty() ? "isobit --help" : "isobit " + command + " --help";
  fmt::print(stderr, "isobit: {} (see {})\n", message, help);
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app("Deep learning that gives the same answer twice.", "isobit");
  app.set_version_flag("--version", isobit::cli::version_text());
  app.require_subcommand(1);
  app.footer("Example:\n  isobit run examples/fashion-lenet5.toml\nEach command: isobit COMMAND --help");
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const auto& command : isobit::cli::commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer("Example:\n  " + command.example);
    actions.emplace_back(sub, command.declare(*sub));
  }
  if (argc < 2) {
    fmt::print("{}", app.help());
    return 2;
  }
  check_subcommand(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    const CLI::App* chosen = &app;
    for (const auto& [sub, action] : actions) {
      if (sub->parsed() || (argc > 1 && sub->get_name() == argv[1])) chosen = sub;
    }
    const auto rest = app.remaining(true);
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !rest.empty() && !rest[0].empty();
    return usage_error(chosen == &app ? "" : chosen->get_name(), extra ? unknown_option(*chosen, rest[0]) : error.what());
  }
  for (const auto& [sub, action] : actions) {
    if (!sub->parsed()) continue;
    const int code = action();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw isobit::archive::UserError("stdout", fmt::format("can not be written: {}", std::strerror(errno)), "");
    }
    return code;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc, argv);
} catch (const isobit::archive::UserError& error) {
  fmt::print(stderr, "isobit: {}\n", error.what());
  return 2;
} catch (const std::bad_alloc&) {
  fmt::print(stderr, "isobit: out of memory (use a smaller batch or grain)\n");
  return 2;
} catch (const std::exception& error) {
  // Refusals bring their own "isobit: ". Never 1: that code is a verdict.
  const std::string message = isobit::cli::message_of(error);
  fmt::print(stderr, "{}{}\n", message.rfind("isobit: ", 0) == 0 ? "" : "isobit: ", message);
  return 2;
}
