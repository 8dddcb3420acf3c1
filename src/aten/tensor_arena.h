// Blocks of one large piece of address space: freed ones keep their pages for the next request.
//
// Best fit, neighbours merged. The pages of freed blocks go back to the kernel, longest free first, where they and the
// blocks in use together exceed the most that was in use at once by more than an eighth (or kSlack): what waits adds
// little to the peak. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "aten/tensor_memory.h"

namespace isobit::aten {

class TensorArena {
 public:
  TensorArena() = default;
  ~TensorArena();
  TensorArena(const TensorArena&) = delete;
  TensorArena& operator=(const TensorArena&) = delete;

  void* take(std::size_t bytes);  // aligned to 64 bytes; nullptr where the kernel gives no address space
  [[nodiscard]] bool holds(const void* memory) const;  // a block in use
  void give(void* memory);                             // precondition: holds(memory)
  std::size_t release();                               // all waiting pages; their bytes
  [[nodiscard]] TensorMemoryUse use() const { return use_; }

  static constexpr std::size_t kSlack = std::size_t{32} << 20;

 private:
  enum class State { in_use, waiting, empty };  // waiting: free with its pages; empty: free without
  struct Block {
    std::size_t size;
    State state;
    std::size_t freed;  // when, counted in calls of give
  };
  using Blocks = std::map<std::byte*, Block>;
  using FreeIndex = std::set<std::pair<std::size_t, std::byte*>>;

  FreeIndex& index_of(State state) { return state == State::waiting ? waiting_ : empty_; }
  Blocks::iterator best_fit(std::size_t size);
  bool extend(std::size_t size);
  void merge_with_neighbours(Blocks::iterator block);
  void drop_waiting(std::size_t limit);
  void make_empty(Blocks::iterator block);

  Blocks blocks_;  // cover the regions without gaps
  FreeIndex waiting_, empty_;
  std::map<std::byte*, std::size_t> regions_;  // blocks do not merge across their starts
  TensorMemoryUse use_;
  std::size_t gives_ = 0;
};

}  // namespace isobit::aten
