// The kernels' own threads. Their number never changes a bit of any result.
//
// A persistent pool; the calling thread takes part. Each thread begins with the share of a range that is always its own
// (dispatch/shares.h), and what is left of others' is handed out while the work runs, so that a thread whose core
// somebody else uses does less. A call from inside a pool thread, or while another thread holds the pool, runs
// inline on its caller. The pool is rebuilt in a forked child on first use. Pool threads keep the contract's
// floating-point environment, and stay awake for 200 us after their last work, yielding.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace isobit::kernels {

// CPUs this process may use: affinity mask and cgroup quota (v1 and v2), at least 1.
[[nodiscard]] int available_cpus();

// Threads used by parallel_for; starts as available_cpus().
[[nodiscard]] int thread_count();
// From now on the count is what this function says, asked at each parallel_for on its caller (a host program's own
// setting, which may differ between threads); nullptr: what set_thread_count said last. Cheap, at least 1, no throw.
using ThreadCountSource = int (*)();
void set_thread_count_source(ThreadCountSource source);
// Precondition: count >= 1; throws std::invalid_argument otherwise. May exceed available_cpus() (tests). Not from
// within a function that parallel_for calls. Where the system gives fewer threads, work runs on its caller.
void set_thread_count(int count);

// Whether callers work alone for a while where other programs use the cores and several threads take longer than one
// (dispatch/contention.h). Off until a program says so: tests of several threads mean several.
void give_way_to_others(bool on);

class ThreadCountScope {
 public:
  explicit ThreadCountScope(int count) : before_(thread_count()) { set_thread_count(count); }
  ~ThreadCountScope() { set_thread_count(before_); }
  ThreadCountScope(const ThreadCountScope&) = delete;
  ThreadCountScope& operator=(const ThreadCountScope&) = delete;

 private:
  int before_;
};

// While it lives, parallel_for on this thread runs inline: for work beside a thread that needs the pool.
class InlineScope {
 public:
  InlineScope();
  ~InlineScope();
  InlineScope(const InlineScope&) = delete;
  InlineScope& operator=(const InlineScope&) = delete;

 private:
  bool before_;
};

namespace detail {
using RangeFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_ranges(std::int64_t begin, std::int64_t end, std::int64_t smallest, RangeFunction function,
                     void* context);
}  // namespace detail

// Calls function(b, e) on disjoint ranges that cover [begin, end), each at least `smallest` long (but one).
// The function must give the same bits however the range is cut. Exceptions are rethrown in the caller.
template <class Function>
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t smallest, Function&& function) {
  using Plain = std::remove_reference_t<Function>;
  detail::parallel_ranges(
      begin, end, smallest,
      [](void* context, std::int64_t b, std::int64_t e) { (*static_cast<Plain*>(context))(b, e); },
      const_cast<void*>(static_cast<const void*>(std::addressof(function))));
}

}  // namespace isobit::kernels
