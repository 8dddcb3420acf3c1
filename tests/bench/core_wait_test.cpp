#include "bench/core_wait.h"

#include <gtest/gtest.h>

#include <chrono>

#include "bench/affinity.h"
#include "bench/disturbance.h"

namespace isobit::bench {
namespace {

void work(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Two that want one core: each waits for the other.
TEST(CoreWait, CountsWhatOthersTake) {
  pin_to_allowed_cpu(0);
  const CoreWait before;
  work(std::chrono::milliseconds(20));
  if (!before.share()) GTEST_SKIP() << "this kernel does not count";
  const Disturbance other(90);
  const CoreWait cores;
  work(std::chrono::milliseconds(1500));
  ASSERT_TRUE(cores.share());
  EXPECT_GT(*cores.share(), 0.15);
  EXPECT_LT(*cores.share(), 1);
}

TEST(CoreWait, IsTold) {
  EXPECT_EQ(wait_note({}), "");
  EXPECT_EQ(wait_note(0.04), "");
  EXPECT_EQ(wait_note(0.234),
            "note: others use the cores: 23 % of the time this program waited for one; measure again where nothing "
            "else runs\n");
}

}  // namespace
}  // namespace isobit::bench
