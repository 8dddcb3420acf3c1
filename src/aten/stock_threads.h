// Stock's kernels on the thread that calls them.
//
// Stock's threads are OpenMP's: after each operator they wait awake, for up to milliseconds, on the cores that isobit's
// next kernel needs, and where other programs use these cores each of their barriers takes as long as the system leaves
// one of them waiting (on two cores in use by others: 10 to 60 ms an operator). What stock computes of a small model is
// a matter of microseconds; of a large one it is cut for isobit's threads (element_pieces.h).
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>

namespace isobit::aten {

// From so many elements on stock's own threads are worth their price.
inline constexpr std::int64_t kWorthStocksThreads = std::int64_t{1} << 20;

// While it lives, stock's kernels that this thread calls do not divide their work, unless a tensor has
// kWorthStocksThreads elements. isobit's threads are as many as before. Of this thread alone; nests; costs 20 ns. Does
// nothing where PyTorch's OpenMP is not found.
class StockOnCaller {
 public:
  explicit StockOnCaller(std::int64_t elements) { begin(elements < kWorthStocksThreads); }
  // Of an operator's arguments: the last `count` of the stack.
  StockOnCaller(const torch::jit::Stack& stack, std::size_t count);
  ~StockOnCaller();
  StockOnCaller(const StockOnCaller&) = delete;
  StockOnCaller& operator=(const StockOnCaller&) = delete;
  [[nodiscard]] static bool lives();

 private:
  void begin(bool small);
  bool changed_ = false;
};

// PyTorch's number of threads on this thread (torch.get_num_threads), whatever lives here.
[[nodiscard]] int stock_thread_count();

}  // namespace isobit::aten
