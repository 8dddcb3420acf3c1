// Scratch memory for the length of one kernel call, reused between calls so that no step allocates.
//
//   Workspace workspace;                       // a frame on the calling thread's own stack of scratch
//   float* panel = workspace.floats(rows * 16);
//
// Blocks are 64-byte aligned and hold anything; 256 bytes past each block's end may be read and written. They
// live until the Workspace dies; frames of one thread nest. A thread keeps the memory of its largest call (up
// to 1 GiB). Throws std::bad_alloc. Nothing here is inline: vector sources may include it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isobit::kernels {

class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  [[nodiscard]] float* floats(std::int64_t count);
  [[nodiscard]] std::int32_t* ints(std::int64_t count);
  [[nodiscard]] void* bytes(std::size_t size);

 private:
  std::size_t chunk_, used_;  // where the frame began
};

}  // namespace isobit::kernels
