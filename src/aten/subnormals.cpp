#include "aten/subnormals.h"

#include <pthread.h>

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <system_error>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

#include "aten/stock_threads.h"
#include "kernels/float_environment.h"

namespace isobit::aten {

namespace {
std::atomic<std::int64_t> switched = 0;  // how often the switch has gone on

// A child of fork has none of the pool's threads, and would wait for ever for new ones.
std::atomic<bool> is_child = false;
[[maybe_unused]] const int watched = pthread_atfork(nullptr, nullptr, [] { is_child = true; });

// Without other threads there is no pool: also in a child that loads the library itself.
bool has_other_threads() {
  std::error_code none;
  std::filesystem::directory_iterator threads("/proc/self/task", none);
  return none || std::distance(begin(threads), std::filesystem::directory_iterator()) > 1;
}

// at::parallel_for, a template, would run here by this library's compiler flags, on the calling thread alone: a loop
// of libtorch's own reaches its pool.
void on_torchs_threads(int count) {
  if (count < 2 || is_child || !has_other_threads()) return;
  at::Tensor one_each(at::detail::empty_cpu({count}, at::kByte));
  at::TensorIterator::nullary_op(one_each).for_each(
      [](char**, const std::int64_t*, std::int64_t) { std::fesetenv(FE_DFL_ENV); }, 1);
}
}  // namespace

void forget_checked_pools() { ++switched; }

// A new thread of torch's pool inherits the setting of the thread that needs it, so the pool is looked at again
// when its size has changed, when this thread's setting had, and when the switch went on.
void keep_subnormals() {
  thread_local int pool_checked = 0;
  thread_local std::int64_t checked_at = -1;
  if (StockOnCaller::lives()) {  // nothing reaches the pool; it is looked at before something does
    if (kernels::float_environment_is_ieee()) return;
    std::fesetenv(FE_DFL_ENV);
    checked_at = -1;
    return;
  }
  const int threads = at::get_num_threads();
  const std::int64_t now = switched.load(std::memory_order_relaxed);
  if (kernels::float_environment_is_ieee() && pool_checked == threads && checked_at == now) return;
  std::fesetenv(FE_DFL_ENV);
  on_torchs_threads(threads);
  pool_checked = threads, checked_at = now;
}

}  // namespace isobit::aten
