#include "aten/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <pthread.h>

#include <cstdlib>
#include <mutex>

#include "aten/tensor_arena.h"

namespace isobit::aten {
namespace {

// The arena behind a mutex that a child of fork finds free.
class SharedArena {
 public:
  static SharedArena& instance() {
    static SharedArena* const shared = new SharedArena;  // outlives every tensor
    return *shared;
  }

  template <class Work>
  auto with(Work work) {
    const std::lock_guard lock(mutex_);
    return work(arena_);
  }

 private:
  SharedArena() {
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
  }

  std::mutex mutex_;
  TensorArena arena_;
};

class KeepingAllocator final : public c10::Allocator {
 public:
  static KeepingAllocator& instance() {
    static KeepingAllocator* const allocator = new KeepingAllocator;
    return *allocator;
  }

  c10::DataPtr allocate(std::size_t n) override {
    if (n < KeptTensorMemory::kSmallest) return before->allocate(n);
    void* memory = SharedArena::instance().with([&](TensorArena& arena) { return arena.take(n); });
    if (memory == nullptr) return before->allocate(n);  // and its message
    c10::profiledCPUMemoryReporter().New(memory, n);
    return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  c10::Allocator* before = nullptr;  // never reset: storages that were made here are resized here

 private:
  static void give_back(void* memory) {
    if (memory == nullptr) return;
    const bool ours = SharedArena::instance().with([&](TensorArena& arena) {
      if (!arena.holds(memory)) return false;
      c10::profiledCPUMemoryReporter().Delete(memory);  // before another thread may get the same address
      arena.give(memory);
      return true;
    });
    if (!ours) instance().before->raw_deleter()(memory);
  }
};

// Blocks below kSmallest stay with the C library. glibc returns the top of its heap to the kernel once 128 KiB of it
// are free, until it has freed a larger block (mallopt(3), M_MMAP_THRESHOLD): stock's large tensors do that by the way,
// but here they come from the arena, and each of many small tensors would be paid for in page faults, four times the
// work itself. So one large block is freed that nobody wrote to. A limit that the user set (MALLOC_TRIM_THRESHOLD_)
// stays.
void let_small_blocks_be_kept() {
  constexpr std::size_t kLargestThatTeaches = std::size_t{32} << 20;
  void* volatile block = std::malloc(kLargestThatTeaches - (std::size_t{64} << 10));  // volatile: not optimised away
  std::free(block);
}

}  // namespace

KeptTensorMemory::KeptTensorMemory() : before_(c10::GetCPUAllocator()) {
#if !defined(__SANITIZE_ADDRESS__)
  KeepingAllocator& ours = KeepingAllocator::instance();
  if (before_ == &ours) return;
  ours.before = before_;
  c10::SetCPUAllocator(&ours);
  static std::once_flag once;
  std::call_once(once, let_small_blocks_be_kept);
#endif
}

KeptTensorMemory::~KeptTensorMemory() {
  KeepingAllocator& ours = KeepingAllocator::instance();
  if (before_ != &ours && c10::GetCPUAllocator() == &ours) c10::SetCPUAllocator(before_);
}

TensorMemoryUse tensor_memory_use() {
  return SharedArena::instance().with([](TensorArena& arena) { return arena.use(); });
}

std::size_t release_tensor_memory() {
  return SharedArena::instance().with([](TensorArena& arena) { return arena.release(); });
}

}  // namespace isobit::aten
