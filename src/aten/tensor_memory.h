// The memory of large CPU tensors, kept between steps while the switch is on.
//
// A training step asks for the same sizes again and again. The C library gives large blocks back to the kernel and gets
// them again page by page, each zeroed first: a third of a U-Net's inference. Here freed blocks keep their pages
// (tensor_arena.h says how many).
//
// Changes no bit: the contents of a tensor that nothing was written to are undefined, here as in stock. Smaller blocks,
// all of them while the switch is off, and those for which the kernel gives no address space, come from the allocator
// that was there before, and its messages; the C library keeps up to 64 MiB of theirs, as it does once stock has freed
// a large tensor. A tensor may outlive the switch. Thread-safe, and safe across fork. With AddressSanitizer it does
// nothing, for that watches the C library's blocks.
#pragma once

#include <cstddef>

namespace c10 {
struct Allocator;
}

namespace isobit::aten {

// While one lives, CPU tensors are allocated as above. One at a time.
class KeptTensorMemory {
 public:
  KeptTensorMemory();
  ~KeptTensorMemory();  // waiting blocks stay: a switch that is turned for each step loses nothing
  KeptTensorMemory(const KeptTensorMemory&) = delete;
  KeptTensorMemory& operator=(const KeptTensorMemory&) = delete;

  static constexpr std::size_t kSmallest = std::size_t{256} << 10;  // bytes

 private:
  c10::Allocator* before_;
};

struct TensorMemoryUse {
  std::size_t in_use = 0, waiting = 0, peak_in_use = 0;  // bytes of blocks of kSmallest and more
};
TensorMemoryUse tensor_memory_use();

// Gives waiting blocks back to the kernel, and forgets the peak. Returns their bytes.
std::size_t release_tensor_memory();

}  // namespace isobit::aten
