// The CUDA implementation's entry points, one fill per family. Private to this folder and its emulation.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <string>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cuda/runtime.h"

namespace isobit::kernels::ISOBIT_CUDA {

void fill_matmul(KernelTable& t);
void fill_conv2d(KernelTable& t);
void fill_reduce(KernelTable& t);
void fill_batch_norm(KernelTable& t);
void fill_group_norm(KernelTable& t);
void fill_softmax(KernelTable& t);
void fill_loss(KernelTable& t);
void fill_pool2d(KernelTable& t);
void fill_pool3d(KernelTable& t);
void fill_grid_sample(KernelTable& t);
void fill_pointwise(KernelTable& t);
void fill_elementwise(KernelTable& t);
void fill_activation(KernelTable& t);
void fill_indexed(KernelTable& t);
void fill_scan(KernelTable& t);
void fill_sort(KernelTable& t);
void fill_place_rows(KernelTable& t);
void fill_wide_functions(KernelTable& t);
void fill_random(KernelTable& t);
void fill_optimizer(KernelTable& t);
void fill_exact_sum(KernelTable& t);
void fill_fingerprint(KernelTable& t);

// A table's functions, as addresses.
using TableSlots = std::array<const void*, sizeof(KernelTable) / sizeof(void*)>;
[[nodiscard]] inline TableSlots slots_of(const KernelTable& t) { return std::bit_cast<TableSlots>(t); }

// Every slot filled: nothing falls back to the host's code. Throws std::logic_error where one is empty.
[[nodiscard]] inline KernelTable make_table() {
  KernelTable t;
  fill_matmul(t);
  fill_conv2d(t);
  fill_reduce(t);
  fill_batch_norm(t);
  fill_group_norm(t);
  fill_softmax(t);
  fill_loss(t);
  fill_pool2d(t);
  fill_pool3d(t);
  fill_grid_sample(t);
  fill_pointwise(t);
  fill_elementwise(t);
  fill_activation(t);
  fill_indexed(t);
  fill_scan(t);
  fill_sort(t);
  fill_place_rows(t);
  fill_wide_functions(t);
  fill_random(t);
  fill_optimizer(t);
  fill_exact_sum(t);
  fill_fingerprint(t);
  const TableSlots slots = slots_of(t);
  const auto empty = std::find(slots.begin(), slots.end(), nullptr) - slots.begin();
  if (empty != static_cast<std::ptrdiff_t>(slots.size())) {
    throw std::logic_error("the device's kernel table: slot " + std::to_string(empty) + " is empty");
  }
  return t;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
