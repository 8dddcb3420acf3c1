// The elementary functions' golden fingerprints on a sample of all inputs, under every instruction set of
// this machine; scripts/prove-functions does all of them.
#include <gtest/gtest.h>

#include "golden/elementary.h"
#include "kernels/isa.h"

namespace isobit::golden {
namespace {

TEST(ElementaryGolden, Sample) {
  const auto golden = read_golden(ISOBIT_GOLDEN_FUNCTIONS);
  for (const kernels::Isa isa : kernels::available_isas()) {
    const kernels::IsaScope scope(isa);
    for (const Elementary& f : kElementary) {
      const auto found = golden.find(std::string(f.name) + ".sample");
      ASSERT_NE(found, golden.end()) << f.name;
      EXPECT_EQ(to_hex(fingerprint_of_sample(f.op)), found->second) << f.name << ", " << kernels::name(isa);
    }
  }
}

TEST(ElementaryGolden, FileNamesEveryFunctionAndNoOther) {
  const auto golden = read_golden(ISOBIT_GOLDEN_FUNCTIONS);
  for (const Elementary& f : kElementary) EXPECT_EQ(golden.count(f.name), 1u) << f.name;
  EXPECT_EQ(golden.size(), 2 * std::size(kElementary));
}

}  // namespace
}  // namespace isobit::golden
