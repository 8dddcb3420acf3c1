#include "kernels/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

struct Job {
  detail::RangeFunction function;
  void* context;
  std::int64_t begin, end;
  int parts;
};

thread_local bool inside_pool = false;

// One job at a time. Workers wait for a new generation number; each takes the parts of its own index (static
// partition), so no queue and no allocation per call.
class Pool {
 public:
  explicit Pool(int workers) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this, i] { work(i + 1); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  void run(const Job& job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = job;
      pending_ = job.parts - 1;
      error_ = nullptr;
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_.load() > 0) wake_.notify_all();
    inside_pool = true;
    run_part(job, 0);
    inside_pool = false;
    // The parts are equal in size: waiting is short, so spin a little before sleeping.
    for (int i = 0; i < kSpins && pending_.load(std::memory_order_acquire) > 0; ++i) pause();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return pending_.load(std::memory_order_acquire) == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static constexpr int kSpins = 2000;

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  void run_part(const Job& job, int part) {
    const std::int64_t n = job.end - job.begin;
    const std::int64_t b = job.begin + n * part / job.parts, e = job.begin + n * (part + 1) / job.parts;
    if (b == e) return;
    try {
      job.function(job.context, b, e);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  void work(int index) {
    const FloatEnvironment environment;
    inside_pool = true;
    std::uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) pause();
      Job job;
      {
        std::unique_lock lock(mutex_);
        ++sleeping_;
        wake_.wait(lock, [&] { return stop_ || generation_.load() != seen; });
        --sleeping_;
        if (stop_) return;
        seen = generation_.load();
        job = job_;
      }
      if (index >= job.parts) continue;
      run_part(job, index);
      if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        const std::lock_guard lock(mutex_);
        done_.notify_all();
      }
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job job_{};
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> pending_{0}, sleeping_{0};
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

int count_now(const PoolHolder& h) {
  const ThreadCountSource source = count_source.load(std::memory_order_relaxed);
  return source != nullptr ? source() : h.count.load();
}
}  // namespace

int thread_count() { return count_now(holder()); }

void set_thread_count_source(ThreadCountSource source) { count_source = source; }

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

void parallel_ranges(std::int64_t begin, std::int64_t end, std::int64_t smallest, RangeFunction function,
                     void* context) {
  const std::int64_t n = end - begin;
  if (n <= 0) return;
  PoolHolder& h = holder();
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, smallest));
  if (most == 1 || inside_pool) return function(context, begin, end);
  const int count = count_now(h);
  const int parts = static_cast<int>(std::min<std::int64_t>(count, most));
  if (parts == 1) return function(context, begin, end);
  std::unique_lock lock(h.mutex, std::try_to_lock);
  if (!lock.owns_lock()) return function(context, begin, end);
  if (!h.pool || h.pool->size() != count) h.pool = std::make_unique<Pool>(count - 1);
  h.pool->run({function, context, begin, end, std::min(parts, h.pool->size())});
}

}  // namespace detail
}  // namespace isobit::kernels
