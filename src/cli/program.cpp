#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "archive/printable.h"
#include "archive/user_error.h"
#include "cli/capability.h"
#include "cli/command.h"
#include "cli/usage.h"
#include "cli/version.h"

namespace {

using isobit::cli::Action;
using isobit::cli::OptionSet;
using isobit::cli::usage_message;

int usage_error(const std::string& command, const std::string& message) {
  const std::string help = command.empty() ? "isobit --help" : "isobit " + command + " --help";
  fmt::print(stderr, "isobit: {} (see {})\n", message, help);
  return 2;
}

int run(int argc, char** argv) {
  CLI::App app("Deep learning that gives the same answer twice.", "isobit");
  app.set_version_flag("--version", isobit::cli::version_text());
  app.require_subcommand(1);
  app.footer(isobit::cli::program_footer());
  std::vector<std::pair<CLI::App*, Action>> actions;
  int own = argc;  // words before a "--" whose rest is another program's
  for (const auto& command : isobit::cli::commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer("Example:\n  " + command.example);
    OptionSet options(*sub);
    actions.emplace_back(sub, command.declare(options));
    if (argc > 1 && argv[1] == command.name && options.words_after_dashes() != nullptr) {
      char** const dashes = std::find(argv, argv + argc, std::string_view("--"));
      own = static_cast<int>(dashes - argv);
      if (own < argc) options.words_after_dashes()->assign(dashes + 1, argv + argc);
    }
  }
  if (argc < 2) {
    fmt::print("{}", app.help());
    return 2;
  }
  isobit::cli::check_first_word(argc, argv);
  try {
    app.parse(own, argv);
  } catch (const CLI::Success& done) {  // --help, --version
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const CLI::App& sub = *actions[i].first;
      if (sub.get_name() == argv[1])
        return usage_error(sub.get_name(), usage_message(sub, &isobit::cli::commands()[i], error));
    }
    return usage_error("", usage_message(app, nullptr, error));
  }
  for (const auto& [sub, action] : actions) {
    if (!sub->parsed()) continue;
    const int code = action();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw isobit::archive::UserError("stdout", fmt::format("cannot be written: {}", std::strerror(errno)), "");
    }
    return code;
  }
  return 2;
}

}  // namespace

int isobit::cli::program(int argc, char** argv) try {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of write, with a message
  return run(argc, argv);
} catch (const isobit::cli::BeginAnew& request) {
  return isobit::cli::begin_anew(request);
} catch (const isobit::archive::UserError& error) {
  fmt::print(stderr, "isobit: {}\n", isobit::archive::printable(error.what()));
  return 2;
} catch (const std::bad_alloc&) {
  fmt::print(stderr, "isobit: out of memory (use a smaller batch or grain)\n");
  return 2;
} catch (const std::exception& error) {
  // Refusals bring their own "isobit: ". Never 1: that code is a verdict.
  const std::string message = isobit::archive::printable_lines(isobit::cli::message_of(error));
  fmt::print(stderr, "{}{}\n", message.rfind("isobit: ", 0) == 0 ? "" : "isobit: ", message);
  return 2;
}
