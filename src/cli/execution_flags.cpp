#include "cli/execution_flags.h"

#include <cstdlib>

#include "archive/user_error.h"

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

}  // namespace isobit::cli
