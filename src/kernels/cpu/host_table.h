// Entry points of kernels that exist on the host only: devices compose their results from other kernels (src/aten).
//
// As in kernel_table.h: one table per instruction set, empty slots of a vector build keep the reference's function.
#pragma once

#include "kernels/isa.h"
#include "kernels/recurrent.h"
#include "kernels/resample.h"

namespace isobit::kernels {

struct HostTable {
  // The steps alone; what comes before and after them is recurrent.cpp's.
  void (*recurrent_steps)(const RecurrentForward& problem) = nullptr;
  // Without dh0, dbias and dweight. carried [batch, hidden]: LSTM: dc0 on return; GRU: what of dh0 did not pass the gates.
  void (*recurrent_steps_backward)(const RecurrentBackward& problem, float* carried) = nullptr;
  decltype(&kernels::step_products) step_products = nullptr;

  decltype(&kernels::resample_axis) resample_axis = nullptr;
};

[[nodiscard]] const HostTable& host_table_of(Isa isa);
// The active instruction set's. Throws DeviceError within a DeviceScope.
[[nodiscard]] const HostTable& active_host_table();

#define ISOBIT_DECLARE_HOST_FILLS     \
  void fill_recurrent(HostTable& t); \
  void fill_resample(HostTable& t);
namespace reference { ISOBIT_DECLARE_HOST_FILLS }
namespace avx2 { ISOBIT_DECLARE_HOST_FILLS }
namespace avx512 { ISOBIT_DECLARE_HOST_FILLS }
namespace lanes16 { ISOBIT_DECLARE_HOST_FILLS }
#undef ISOBIT_DECLARE_HOST_FILLS

}  // namespace isobit::kernels
