// A device's table holds functions of its own only: a slot that kept the host's would read device memory on
// the host.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/emulation/emulation.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::emulated {
namespace {

void expect_own_slots(const DeviceBackend& device) {
  const TableSlots slots = slots_of(*device.table);
  EXPECT_EQ(std::count(slots.begin(), slots.end(), nullptr), 0) << device.name;
  for (const Isa isa : available_isas()) {
    const TableSlots host = slots_of(table_of(isa));
    for (std::size_t i = 0; i < slots.size(); ++i) {
      EXPECT_EQ(std::count(host.begin(), host.end(), slots[i]), 0)
          << device.name << ": slot " << kKernelSlotNames[i] << " is that of " << name(isa);
    }
  }
}

TEST(DeviceTable, TheEmulationFillsEverySlotItself) { expect_own_slots(backend()); }

// What nvcc built, where it did; the table needs no GPU.
TEST(DeviceTable, TheBuildsOwnDeviceFillsEverySlotItself) {
  set_device_backend(nullptr);
  const DeviceBackend* built = device_backend();
  if (built == nullptr) GTEST_SKIP() << "built without nvcc";
  EXPECT_STREQ(built->name, "cuda");
  expect_own_slots(*built);
}

}  // namespace
}  // namespace isobit::kernels::emulated
