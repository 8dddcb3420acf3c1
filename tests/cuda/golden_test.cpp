// The committed fingerprints of every kernel family that devices have, on the emulated device.
#include <gtest/gtest.h>

#include "kernels/cuda/emulation/emulation.h"
#include "golden/golden_file.h"
#include "golden/kernel_cases.h"

namespace isobit::golden {
namespace {

TEST(GoldenOnDevice, EveryCase) {
  const auto values = read_golden(ISOBIT_GOLDEN_FILE);
  ASSERT_FALSE(values.empty());
  const kernels::emulated::EmulatedScope scope(kernels::emulated::ThreadOrder::ascending);
  for (const Case& c : kernel_cases()) {
    const auto found = values.find(c.name);
    if (found == values.end()) continue;  // tests/kernels/golden_test.cpp names it
    if (c.host_only) {
      EXPECT_THROW((void)c.compute(), kernels::DeviceError)
          << c.name << " runs on a device: it is not of the host only";
      continue;
    }
    EXPECT_EQ(kernels::to_hex(c.compute()), found->second) << c.name;
  }
}

}  // namespace
}  // namespace isobit::golden
