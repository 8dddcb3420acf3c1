#include "aten/tensor_arena.h"

#include <sys/mman.h>

#include <algorithm>

namespace isobit::aten {
namespace {

constexpr std::size_t kLine = 64, kPage = 4096, kHugePage = std::size_t{2} << 20;
constexpr std::size_t kRegion = std::size_t{16} << 30;  // of address space: pages come when they are written
constexpr std::size_t kSmallestRest = std::size_t{64} << 10;

// Tensors' sizes are mostly powers of two: a little more keeps them from starting at the same place of a page, where
// they would fight for the same sets of the first cache.
constexpr std::size_t kSpread = 13 * kLine;

constexpr std::size_t rounded_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::byte* rounded_up(std::byte* p, std::size_t to) {
  return p + (rounded_up(reinterpret_cast<std::size_t>(p), to) - reinterpret_cast<std::size_t>(p));
}
std::byte* rounded_down(std::byte* p, std::size_t to) { return p - reinterpret_cast<std::size_t>(p) % to; }

}  // namespace

TensorArena::~TensorArena() {
  for (const auto& [start, size] : regions_) munmap(start, size);
}

void* TensorArena::take(std::size_t bytes) {
  const std::size_t size = rounded_up(bytes, kLine) + kSpread;
  auto block = best_fit(size);
  if (block == blocks_.end()) {
    if (!extend(size)) return nullptr;
    block = best_fit(size);
  }
  const State state = block->second.state;
  index_of(state).erase({block->second.size, block->first});
  if (state == State::waiting) use_.waiting -= block->second.size;
  if (block->second.size - size >= kSmallestRest) {
    const auto rest =
        blocks_.emplace(block->first + size, Block{block->second.size - size, state, block->second.freed}).first;
    index_of(state).insert({rest->second.size, rest->first});
    if (state == State::waiting) use_.waiting += rest->second.size;
    block->second.size = size;
  }
  block->second.state = State::in_use;
  use_.in_use += block->second.size;
  use_.peak_in_use = std::max(use_.peak_in_use, use_.in_use);
  const std::size_t most = use_.peak_in_use + std::max(use_.peak_in_use / 8, kSlack);
  drop_waiting(most - use_.in_use);
  return block->first;
}

// The smallest that is large enough: with pages, or else without.
TensorArena::Blocks::iterator TensorArena::best_fit(std::size_t size) {
  for (FreeIndex* index : {&waiting_, &empty_}) {
    const auto fit = index->lower_bound({size, nullptr});
    if (fit != index->end()) return blocks_.find(fit->second);
  }
  return blocks_.end();
}

bool TensorArena::extend(std::size_t size) {
  const std::size_t region = std::max(kRegion, rounded_up(size, kHugePage));
  void* mapped = mmap(nullptr, region, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return false;
  madvise(mapped, region, MADV_HUGEPAGE);
  auto* start = static_cast<std::byte*>(mapped);
  regions_.emplace(start, region);
  blocks_.emplace(start, Block{region, State::empty, 0});
  empty_.insert({region, start});
  return true;
}

bool TensorArena::holds(const void* memory) const {
  const auto block = blocks_.find(static_cast<std::byte*>(const_cast<void*>(memory)));
  return block != blocks_.end() && block->second.state == State::in_use;
}

void TensorArena::give(void* memory) {
  const auto block = blocks_.find(static_cast<std::byte*>(memory));
  use_.in_use -= block->second.size;
  use_.waiting += block->second.size;
  block->second.state = State::waiting;
  block->second.freed = ++gives_;
  waiting_.insert({block->second.size, block->first});
  merge_with_neighbours(block);
}

// Blocks of one kind only: what has pages is not to be mistaken for what has none.
void TensorArena::merge_with_neighbours(Blocks::iterator block) {
  const auto merge = [&](Blocks::iterator left, Blocks::iterator right) {
    if (left->second.state != right->second.state || regions_.contains(right->first)) return false;
    FreeIndex& index = index_of(left->second.state);
    index.erase({left->second.size, left->first});
    index.erase({right->second.size, right->first});
    left->second.size += right->second.size;
    left->second.freed = std::max(left->second.freed, right->second.freed);
    blocks_.erase(right);
    index.insert({left->second.size, left->first});
    return true;
  };
  if (const auto next = std::next(block); next != blocks_.end()) merge(block, next);
  if (block != blocks_.begin()) merge(std::prev(block), block);
}

void TensorArena::drop_waiting(std::size_t limit) {
  while (use_.waiting > limit) {
    const auto oldest = std::min_element(waiting_.begin(), waiting_.end(), [&](const auto& a, const auto& b) {
      return blocks_.at(a.second).freed < blocks_.at(b.second).freed;
    });
    make_empty(blocks_.find(oldest->second));
  }
}

// Its whole pages; those it shares with a neighbour stay.
void TensorArena::make_empty(Blocks::iterator block) {
  std::byte* const first = rounded_up(block->first, kPage);
  std::byte* const last = rounded_down(block->first + block->second.size, kPage);
  if (first < last) madvise(first, static_cast<std::size_t>(last - first), MADV_DONTNEED);
  waiting_.erase({block->second.size, block->first});
  use_.waiting -= block->second.size;
  block->second.state = State::empty;
  empty_.insert({block->second.size, block->first});
  merge_with_neighbours(block);
}

std::size_t TensorArena::release() {
  const std::size_t bytes = use_.waiting;
  drop_waiting(0);
  use_.peak_in_use = use_.in_use;
  return bytes;
}

}  // namespace isobit::aten
