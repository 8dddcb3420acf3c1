#include "kernels/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/dispatch/contention.h"
#include "kernels/dispatch/shares.h"
#include "kernels/float_environment.h"

namespace isobit::kernels {
namespace {

// CPUs by cgroup quota, 0 where there is none. Version 2 writes "max 100000" or "200000 100000" in cpu.max of
// the process's group; version 1 two files. Groups between ours and the root may be tighter: the nearest file
// found wins, which is what container runtimes set.
int cgroup_cpus() {
  std::string group;
  std::ifstream membership("/proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    if (line.rfind("0::", 0) == 0) group = line.substr(3);
  }
  for (const std::string& path : {"/sys/fs/cgroup" + group + "/cpu.max", std::string("/sys/fs/cgroup/cpu.max")}) {
    std::ifstream file(path);
    std::string quota;
    double period = 0;
    if (file >> quota >> period) {
      if (quota == "max" || period <= 0) return 0;
      return std::max(1, static_cast<int>(std::stod(quota) / period + 0.999));
    }
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (quota_file >> quota && period_file >> period && quota > 0 && period > 0) {
    return std::max(1, static_cast<int>(quota / period + 0.999));
  }
  return 0;
}

constexpr int kMostShares = 0xfff;  // of one call
static_assert(Shares::kMostRounds <= 0xf);

// Work of one call.
struct Job {
  detail::RangeFunction function = nullptr;
  void* context = nullptr;
  Shares shares;
};

thread_local bool inside_pool = false;

// One job at a time. Thread p takes the rounds of share p, then what is left of the others': each share's count of
// rounds that somebody took is all that threads compete for, and few do before the end. Whoever took one may read the
// job until he says that it is done. No queue, no allocation and, while all are awake, no lock per call.
//
// A thread that the system does not run takes nothing, and holds up nobody but with the round that it has begun.
class Pool {
 public:
  explicit Pool(int workers) : taken_(static_cast<std::size_t>(workers) + 1) {
    try {
      for (int i = 1; i <= workers; ++i) threads_.emplace_back([this, i] { work(i); });
    } catch (...) {  // the system gives no more
      end();
      throw;
    }
  }
  ~Pool() { end(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Whether the caller is faster without the others, for now.
  [[nodiscard]] bool works_alone() const {
    return contention_.may_work_alone() && contention_.works_alone(Contention::Clock::now());
  }

  void run(const Job& job) {
    const auto began = Contention::Clock::now();
    error_ = nullptr;
    undone_.store(job.shares.parts * job.shares.rounds, std::memory_order_relaxed);
    job_ = job;  // nobody reads it: every round of the job before is done
    const Call call{++calls_, job.shares.parts, job.shares.rounds};
    call_.store(call.word());
    if (sleeping_.load() > 0) {
      {
        const std::lock_guard lock(mutex_);
      }  // none is between looking and sleeping
      wake_.notify_all();
    }
    inside_pool = true;
    const int own = run_share(call, 0);
    inside_pool = false;
    const auto worked = Contention::Clock::now();
    const auto all_done = [this] { return undone_.load() == 0; };
    if (!spin_until(all_done)) {
      std::unique_lock lock(mutex_);
      waiting_.store(true);
      done_.wait(lock, all_done);
      waiting_.store(false);
    }
    const auto now = Contention::Clock::now();
    contention_.add(now, worked - began, now - worked,
                    std::max(own, 1) / static_cast<double>(call.parts * call.rounds));
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  struct alignas(64) Taken {
    std::atomic<std::uint64_t> word{0};
  };
  static_assert(sizeof(Job) + sizeof(std::uint64_t) <= 64);

  // Longer than what lies between two operators of a step: on a busy machine it takes as long to be woken, or longer.
  // By the clock: `pause` takes 40 cycles on one make of CPU and 140 on another.
  static constexpr std::chrono::microseconds kSpin{200};

  template <class Condition>
  static bool spin_until(const Condition& condition) {
    for (auto until = std::chrono::steady_clock::time_point{};;) {
      for (int i = 0; i < 16; ++i) {
        if (condition()) return true;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
      const auto now = std::chrono::steady_clock::now();
      if (until == std::chrono::steady_clock::time_point{}) until = now + kSpin;
      if (now > until) return false;
      sched_yield();  // on a busy machine the thread that is waited for may be in line for this very core
    }
  }

  // What a thread must know before it may read the job, in one word: which call (48 bits: nine years of one each
  // microsecond), into how many shares and rounds.
  struct Call {
    std::uint64_t number;
    int parts, rounds;
    static Call of(std::uint64_t word) {
      return {word >> 16, static_cast<int>(word >> 4 & kMostShares), static_cast<int>(word & 0xf)};
    }
    [[nodiscard]] std::uint64_t word() const {
      return number << 16 | static_cast<std::uint64_t>(parts) << 4 | static_cast<std::uint64_t>(rounds);
    }
  };

  // The next round of a share, or -1. `taken` holds the number of the call that it counts rounds of: nobody sets it
  // back, and who comes late to a call that is over finds its rounds taken, or a later number.
  static int take(Taken& taken, Call call) {
    std::uint64_t seen = taken.word.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t number = seen >> 8;
      const std::uint64_t round = number == call.number ? seen & 0xff : 0;
      if (number > call.number || round == static_cast<std::uint64_t>(call.rounds)) return -1;
      if (taken.word.compare_exchange_weak(seen, call.number << 8 | (round + 1), std::memory_order_acq_rel,
                                           std::memory_order_acquire))
        return static_cast<int>(round);
    }
  }

  void run_round(int part, int round) {
    const std::int64_t b = job_.shares.border(part, round), e = job_.shares.border(part, round + 1);
    try {
      if (b < e) job_.function(job_.context, b, e);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  // Thread `own`'s share, then the others'; returns how many rounds it did. What was done is said once, at the end: who
  // waits for it waits for others' rounds, too.
  int run_share(Call call, int own) {
    int done = 0;
    for (int i = 0; i < call.parts; ++i) {
      const int part = own + i < call.parts ? own + i : own + i - call.parts;
      for (int round; (round = take(taken_[static_cast<std::size_t>(part)], call)) >= 0; ++done) run_round(part, round);
    }
    if (done > 0 && undone_.fetch_sub(done) == done && waiting_.load()) {
      const std::lock_guard lock(mutex_);
      done_.notify_all();
    }
    return done;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void work(int own) {
    const FloatEnvironment environment;
    inside_pool = true;
    for (std::uint64_t seen = 0;;) {
      if (!spin_until([&] { return call_.load(std::memory_order_acquire) != seen; })) {
        std::unique_lock lock(mutex_);
        sleeping_.fetch_add(1);
        wake_.wait(lock, [&] { return stop_ || call_.load() != seen; });
        sleeping_.fetch_sub(1);
        if (stop_) return;
      }
      seen = call_.load();
      const Call call = Call::of(seen);
      if (own < call.parts) run_share(call, own);  // of fewer shares than threads: not to take them from their owners
    }
  }

  std::vector<std::thread> threads_;
  Contention contention_;  // the caller's, who holds the pool
  std::uint64_t calls_ = 0;
  std::vector<Taken> taken_;  // a share each
  // Side by side, for one line of the cache brings both.
  alignas(64) std::atomic<std::uint64_t> call_{0};
  Job job_{};
  alignas(64) std::atomic<int> undone_{0};
  alignas(64) std::atomic<int> sleeping_{0};
  std::atomic<bool> waiting_{false};
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::exception_ptr error_;
  bool stop_ = false;
};

struct PoolHolder {
  std::mutex mutex;  // held by the one caller that uses the pool
  std::unique_ptr<Pool> pool;
  std::atomic<int> count{0};
};

// Never destroyed: kernels may run in static destructors of other libraries. Replaced in a forked child, whose
// copy has a pool without threads and possibly a locked mutex.
std::atomic<PoolHolder*> holder_pointer{nullptr};

PoolHolder& holder() {
  PoolHolder* found = holder_pointer.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  static std::mutex creation;
  const std::lock_guard lock(creation);
  found = holder_pointer.load();
  if (found == nullptr) {
    found = new PoolHolder;
    found->count = available_cpus();
    static const int registered = pthread_atfork(nullptr, nullptr, [] {
      PoolHolder* before = holder_pointer.load();
      if (before == nullptr) return;
      auto* fresh = new PoolHolder;
      fresh->count = before->count.load();
      holder_pointer.store(fresh);
      inside_pool = false;
    });
    (void)registered;
    holder_pointer.store(found, std::memory_order_release);
  }
  return *found;
}

}  // namespace

int available_cpus() {
  static const int count = [] {
    int by_affinity = static_cast<int>(std::thread::hardware_concurrency());
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) by_affinity = CPU_COUNT(&set);
    const int by_quota = cgroup_cpus();
    return std::max(1, by_quota > 0 ? std::min(by_affinity, by_quota) : by_affinity);
  }();
  return count;
}

namespace {
std::atomic<ThreadCountSource> count_source{nullptr};
std::atomic<bool> gives_way{false};

int count_now(const PoolHolder& h) {
  const ThreadCountSource source = count_source.load(std::memory_order_relaxed);
  return source != nullptr ? source() : h.count.load();
}
}  // namespace

int thread_count() { return count_now(holder()); }

void set_thread_count_source(ThreadCountSource source) { count_source = source; }

void give_way_to_others(bool on) { gives_way = on; }

void set_thread_count(int count) {
  if (count < 1) throw std::invalid_argument("thread count must be at least 1, got " + std::to_string(count));
  PoolHolder& h = holder();
  const std::lock_guard lock(h.mutex);
  h.count = count;
  if (h.pool && h.pool->size() != count) h.pool.reset();
}

InlineScope::InlineScope() : before_(std::exchange(inside_pool, true)) {}
InlineScope::~InlineScope() { inside_pool = before_; }

namespace detail {

// The smallest of a share's rounds is about a seventh of it: rounds are for work that has so many smallest pieces for
// each thread.
constexpr std::int64_t kSmallestShare = 3;

void parallel_ranges(std::int64_t begin, std::int64_t end, std::int64_t smallest, RangeFunction function,
                     void* context) {
  const std::int64_t n = end - begin;
  if (n <= 0) return;
  PoolHolder& h = holder();
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, smallest));
  if (most == 1 || inside_pool) return function(context, begin, end);
  const int count = count_now(h);
  const int parts = static_cast<int>(std::min<std::int64_t>({count, most, kMostShares}));
  if (parts == 1) return function(context, begin, end);
  std::unique_lock lock(h.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return function(context, begin, end);
  if (!h.pool || h.pool->size() != count) {
    h.pool.reset();
    try {
      h.pool = std::make_unique<Pool>(count - 1);
    } catch (const std::system_error&) {  // no threads left: slower, and the same bits
      lock.unlock();
      return function(context, begin, end);
    }
  }
  if (gives_way.load(std::memory_order_relaxed) && h.pool->works_alone()) {
    lock.unlock();  // others may try
    return function(context, begin, end);
  }
  const int rounds =
      static_cast<int>(std::clamp<std::int64_t>(most / (kSmallestShare * parts), 1, Shares::kMostRounds));
  h.pool->run({function, context, {begin, end, parts, rounds}});
}

}  // namespace detail
}  // namespace isobit::kernels
