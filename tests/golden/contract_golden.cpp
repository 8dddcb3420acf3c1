// Prints `name fingerprint` of every golden case, for comparison with kernels.txt on any architecture.
//
//   contract_golden [ISA [THREADS]]     defaults: the fastest here, 1
#include <cstdio>
#include <cstdlib>

#include "golden/kernel_cases.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

int main(int count, char** arguments) {
  using namespace isobit;
  const auto isa = kernels::parse_isa(count > 1 ? arguments[1] : "auto");
  const int threads = count > 2 ? std::atoi(arguments[2]) : 1;
  if (!isa || !kernels::isa_available(*isa) || threads < 1) {
    std::fprintf(stderr, "usage: contract_golden [ISA [THREADS]]; instruction sets here:");
    for (const kernels::Isa available : kernels::available_isas()) {
      std::fprintf(stderr, " %s", std::string(kernels::name(available)).c_str());
    }
    std::fprintf(stderr, "\n");
    return 2;
  }
  kernels::set_isa(*isa);
  kernels::set_thread_count(threads);
  for (const golden::Case& golden_case : golden::kernel_cases()) {
    std::printf("%s %s\n", golden_case.name.c_str(), kernels::to_hex(golden_case.compute()).c_str());
  }
}
