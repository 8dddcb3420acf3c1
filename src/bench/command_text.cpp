#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/bench.h"

namespace isobit::bench {

std::string command_of(const BenchArguments& arguments) {
  const BenchOptions& given = arguments.options;
  const BenchOptions usual;
  std::string text = "isobit bench " + arguments.what;
  const auto add = [&](bool differs, const std::string& words) {
    if (differs) text += " " + words;
  };
  add(arguments.what != "ops", fmt::format("--models {}", fmt::join(given.models, ",")));
  add(given.filter != usual.filter, fmt::format("--filter '{}'", given.filter));
  add(true, fmt::format("--threads {}", fmt::join(given.threads, ",")));
  add(given.isas != usual.isas, fmt::format("--isa {}", fmt::join(given.isas, ",")));
  add(given.products != usual.products, "--products " + given.products);
  add(arguments.what != "memory", fmt::format("--rounds {}", given.rounds));
  add(given.disturb != usual.disturb, fmt::format("--disturb {}", given.disturb));
  add(given.inference, "--inference");
  add(given.only_inference, "--only-inference");
  return text;
}

}  // namespace isobit::bench
