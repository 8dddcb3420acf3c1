// A build without some instruction sets (ISOBIT_ISAS): this program has a run-time choice of its own, compiled without
// AVX-512 and what shares its kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/isa.h"
#include "kernels/isa_beside.h"
#include "kernels/isa_left_out.h"

namespace isobit::kernels {
namespace {

constexpr Isa kLeftOut[] = {Isa::avx512, Isa::avx512vnni, Isa::amx};

std::string refusal_of(Isa isa) {
  try {
    set_isa(isa);
  } catch (const std::invalid_argument& problem) {
    return problem.what();
  }
  return "";
}

TEST(IsaLeftOut, IsNeverChosen) {
  for (const Isa isa : kLeftOut) {
    EXPECT_FALSE(isa_available(isa)) << name(isa);
    const auto available = available_product_isas();
    EXPECT_EQ(std::find(available.begin(), available.end(), isa), available.end()) << name(isa);
    EXPECT_NE(best_isa(), isa);
    EXPECT_NE(best_product_isa(), isa);
    EXPECT_TRUE(isa_available(isa_beside(isa))) << name(isa);
    EXPECT_EQ(parse_isa(name(isa)), isa);  // known, for what it says
  }
}

TEST(IsaLeftOut, SaysHowItIsBuilt) {
  for (const Isa isa : kLeftOut) {
    const std::string refusal = refusal_of(isa);
    ASSERT_NE(refusal, "") << name(isa);
    EXPECT_NE(refusal.find(name(isa)), std::string::npos) << refusal;
    EXPECT_EQ(refusal.find("scripts/build --all-isas") != std::string::npos, isa_left_out(isa)) << refusal;
  }
}

// Told apart from what this CPU lacks, where building it would not help.
TEST(IsaLeftOut, IsWhatThisCpuCouldRun) {
  EXPECT_FALSE(isa_left_out(Isa::reference));
  EXPECT_FALSE(isa_left_out(Isa::avx2));  // built
#if defined(__x86_64__)
  EXPECT_EQ(isa_left_out(Isa::avx512), __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                                           __builtin_cpu_supports("avx512vl"));
#endif
}

}  // namespace
}  // namespace isobit::kernels
