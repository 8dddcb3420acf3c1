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

#include "archive/error_message.h"
#include "archive/printable.h"
#include "archive/user_error.h"
#include "cli/command.h"
#include "cli/error_report.h"
#include "cli/usage.h"
#include "cli/version.h"
#include "kernels/threads.h"
#include "process/capability.h"

namespace {

using isobit::cli::Action;
using isobit::cli::OptionSet;
using isobit::cli::usage_message;

// `json`: whether an error is an object on stdout, too. verify says its own there, within its verdict.
int run(int argc, char** argv, bool& json) {
  const auto usage_error = [&](const std::string& command, const std::string& message) {
    const std::string help = command.empty() ? "isobit --help" : "isobit " + command + " --help";
    return isobit::cli::report_error(fmt::format("{} (see {})", message, help), json);
  };
  CLI::App app("Deep learning that gives the same answer twice.", "isobit");
  app.set_version_flag("--version", isobit::cli::version_text());
  app.require_subcommand(1);
  app.footer(isobit::cli::program_footer());
  std::vector<std::pair<CLI::App*, Action>> actions;
  int own = argc;  // words before a "--" whose rest is another program's
  for (const auto& command : isobit::cli::commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->group(isobit::cli::heading(command.group));
    sub->footer("Example:\n  " + command.example);
    OptionSet options(*sub, {argv + 1, argv + argc});
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
    json = json && sub->get_name() != "verify";
    const int code = action();
    json = false;  // the command has said what it says
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw isobit::archive::UserError("stdout", fmt::format("cannot be written: {}", std::strerror(errno)), "");
    }
    return code;
  }
  return 2;
}

}  // namespace

int isobit::cli::program(int argc, char** argv) {
  bool json = asks_for_json(argc, argv);
  try {
    isobit::kernels::give_way_to_others(true);
    std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of write, with a message
    return run(argc, argv, json);
  } catch (const process::BeginAnew& request) {
    return process::begin_anew(request);
  } catch (const archive::UserError& error) {
    return report_error(archive::printable(error.what()), json);
  } catch (const std::bad_alloc&) {
    return report_error("out of memory (use a smaller batch or grain)", json);
  } catch (const std::exception& error) {  // refusals bring their own "isobit: "
    const std::string message = archive::printable_lines(archive::message_of(error)), own = "isobit: ";
    return report_error(message.starts_with(own) ? message.substr(own.size()) : message, json);
  }
}
