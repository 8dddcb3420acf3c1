#include "cli/execution_flags.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include "archive/user_error.h"
#include "process/execution_place.h"

namespace isobit::cli {

using archive::UserError;

void declare_execution(OptionSet& app, train::ExecutionOptions& options) {
  app.add("--threads", options.threads,
          "Threads that compute; isobit's bits do not depend on it (default: all that this process may use; a stock "
          "run is "
          "repeated or resumed with its own number)")
      .type("N")
      .checked([](const std::string& text) {
        char* end = nullptr;
        const long n = std::strtol(text.c_str(), &end, 10);
        if (*end == '\0' && n >= 1 && n <= 1024) return;
        throw UserError("--threads " + text, "not a number of threads", "use 1 to 1024, or leave the option out");
      });
  app.add("--isa", options.isa,
          "Instruction set: auto, reference, avx2, avx512; for products = \"exact3\" also avx512vnni, amx; the bits do "
          "not "
          "depend on it")
      .type("ISA");
  app.add("--device", options.device,
          "Where to compute: cpu, cuda or cuda:INDEX; the bits do not depend on it (default: cpu)")
      .type("DEVICE");
  app.add("--grain-order", options.grain_order,
          "Order in which grains are executed: ascending or shuffled; the bits do not depend on it")
      .type("ORDER")
      .group("Advanced");
  app.add("--capability", options.capability,
          "Instruction set of stock PyTorch, MKL and oneDNN (arithmetic.kind): default, avx2, avx512 (default: the "
          "CPU's)")
      .type("LEVEL")
      .group("Advanced");
}

Action at_place(OptionSet& app, Action action) {
  const auto& places = process::execution_places();
  if (places.empty()) return action;
  const auto values = std::make_shared<std::vector<std::string>>(places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    app.add(places[i].option, (*values)[i], places[i].help).type(places[i].type).group("Where");
  return [&places, values, line = app.line(), action = std::move(action)] {
    const process::ExecutionPlace* chosen = nullptr;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if ((*values)[i].empty()) continue;
      if (chosen != nullptr)
        throw UserError(places[i].option, "cannot be given beside " + chosen->option, "leave one of the two out");
      chosen = &places[i];
    }
    if (chosen == nullptr) return action();
    return chosen->execute((*values)[static_cast<std::size_t>(chosen - places.data())],
                           process::without_option(line, chosen->option));
  };
}

}  // namespace isobit::cli
