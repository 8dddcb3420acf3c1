// The CUDA implementation's entry points, one fill per family. Private to this folder and its emulation.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cuda/runtime.h"

namespace isobit::kernels::ISOBIT_CUDA {

#define ISOBIT_DECLARE_FILL(family) void fill_##family(KernelTable& t);
#define ISOBIT_NO_FILL(family)
ISOBIT_KERNEL_FAMILIES(ISOBIT_DECLARE_FILL, ISOBIT_DECLARE_FILL, ISOBIT_NO_FILL, ISOBIT_NO_FILL)
#undef ISOBIT_DECLARE_FILL

// A table's functions, as addresses; their names are kKernelSlotNames.
using TableSlots = std::array<const void*, sizeof(KernelTable) / sizeof(void*)>;
[[nodiscard]] inline TableSlots slots_of(const KernelTable& t) { return std::bit_cast<TableSlots>(t); }

// Every slot filled: nothing falls back to the host's code. Throws std::logic_error where one is empty.
[[nodiscard]] inline KernelTable make_table() {
  KernelTable t;
#define ISOBIT_FILL(family) fill_##family(t);
  ISOBIT_KERNEL_FAMILIES(ISOBIT_FILL, ISOBIT_FILL, ISOBIT_NO_FILL, ISOBIT_NO_FILL)
#undef ISOBIT_FILL
#undef ISOBIT_NO_FILL
  const TableSlots slots = slots_of(t);
  const auto empty = std::find(slots.begin(), slots.end(), nullptr) - slots.begin();
  if (empty != static_cast<std::ptrdiff_t>(slots.size())) {
    throw std::logic_error("the device's kernel table: slot " + std::string(kKernelSlotNames[empty]) + " is empty");
  }
  return t;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
