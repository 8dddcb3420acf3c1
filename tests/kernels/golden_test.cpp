// The committed fingerprints of every kernel family, for every instruction set of this machine and 1, 2 and 3
// threads. A change of bits anywhere fails here; docs/contract.md says what such a change takes.
#include <gtest/gtest.h>

#include "golden/golden_file.h"
#include "golden/kernel_cases.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::golden {
namespace {

std::map<std::string, std::string> committed() { return read_golden(ISOBIT_GOLDEN_FILE); }

TEST(Golden, FileAndCasesHaveTheSameNames) {
  const auto values = committed();
  std::size_t found = 0;
  for (const Case& c : kernel_cases()) {
    EXPECT_EQ(values.count(c.name), 1u) << c.name << " is missing in " << ISOBIT_GOLDEN_FILE;
    found += values.count(c.name);
  }
  EXPECT_EQ(found, values.size()) << "the file names cases that do not exist";
  EXPECT_EQ(kernel_cases().size(), values.size()) << "a name occurs twice";
}

// A struct instead of a tuple, so that it is printed as words.
struct Machine {
  kernels::Isa isa;
  int threads;
};

std::string label(const Machine& machine) {
  return std::string(kernels::name(machine.isa)) + "_" + std::to_string(machine.threads) + "_threads";
}

void PrintTo(const Machine& machine, std::ostream* out) { *out << label(machine); }

std::vector<Machine> machines() {
  std::vector<Machine> all;
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const int threads : {1, 2, 3}) all.push_back({isa, threads});
  }
  return all;
}

class GoldenOn : public ::testing::TestWithParam<Machine> {};

TEST_P(GoldenOn, EveryCase) {
  const auto& [isa, threads] = GetParam();
  const kernels::IsaScope isa_scope(isa);
  const kernels::ThreadCountScope thread_scope(threads);
  const auto values = committed();
  for (const Case& c : kernel_cases()) {
    const auto found = values.find(c.name);
    if (found == values.end()) continue;  // the test above names it
    EXPECT_EQ(kernels::to_hex(c.compute()), found->second) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, GoldenOn, ::testing::ValuesIn(machines()),
                         [](const auto& info) { return label(info.param); });

}  // namespace
}  // namespace isobit::golden
