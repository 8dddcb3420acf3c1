#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdlib>
#include <deque>
#include <exception>
#include <numeric>
#include <new>
#include <random>
#include <set>
#include <unordered_map>

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace isobit::kernels::emulated {
namespace {

constexpr int kMostThreads = 1024;
constexpr std::int64_t kMostShared = 227 * 1024;  // of a block on compute capability 9.0
constexpr std::size_t kStack = 128 * 1024;
constexpr std::uint32_t kPoison = 0x7fc0deadu;  // a NaN
constexpr int kGuardWords = 16;                 // behind the block's shared memory; must stay as they are

ThreadOrder thread_order = ThreadOrder::ascending;
std::mt19937 shuffler(1);

Site omitted;
std::vector<Site> sites;
std::set<std::pair<const void*, unsigned>> met;

Site site_of(const Where& where) {
  const std::string file = where.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

// Notes the place; false where it is left out.
bool is_kept(const Where& where) {
  if (met.insert({where.file_name(), where.line()}).second) sites.push_back(site_of(where));
  return omitted.empty() || site_of(where) != omitted;
}

template <class Int>
std::vector<Int> in_order(Int n) {
  std::vector<Int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Int{0});
  if (thread_order == ThreadOrder::descending) std::reverse(all.begin(), all.end());
  if (thread_order == ThreadOrder::shuffled) std::shuffle(all.begin(), all.end(), shuffler);
  return all;
}

// A fiber that runs threads of the block, one after the other until one of them waits.
struct Worker {
  boost::context::fiber fiber;
  boost::context::fiber scheduler;  // where to go back to
  char* top = nullptr;              // of its stack, nearly
};

// ASan does not know fibers: frames that an exception has left stay poisoned on their stack, and what is called there
// next seems to overflow. All below `frame` is free.
void forget_frames([[maybe_unused]] const Worker& worker, [[maybe_unused]] const void* frame) {
#if defined(__SANITIZE_ADDRESS__)
  const char* low = worker.top - kStack + 4096;
  __asan_unpoison_memory_region(low, static_cast<std::size_t>(static_cast<const char*>(frame) - low));
#endif
}

struct Copy {
  void* to;
  const void* from;
  int bytes;
  int group;  // -1: not committed yet
};

enum class State { fresh, runnable, at_barrier, at_exchange, at_product, ended };

struct Thread {
  State state = State::fresh;
  Worker* worker = nullptr;
  std::pair<const void*, unsigned> waits_at{};
  std::uint64_t given = 0, taken = 0;
  int wanted = 0;
  emulation::WarpProduct product{};
  std::vector<Copy> copies;
  int groups = 0;
};

class Machine {
 public:
  emulation::Place place;

  void run(const Launch& shape, const std::function<void()>& body) {
    if (shape.threads < 1 || shape.threads > kMostThreads) throw EmulationError("a block has 1 to 1024 threads");
    if (shape.blocks > 0x7fffffff) throw EmulationError("the grid is too large");
    if (shape.shared_bytes > kMostShared) throw EmulationError("more shared memory than a block can have");
    body_ = &body;
    shared_.resize(static_cast<std::size_t>(ceil_div(shape.shared_bytes, 16) * 4 + kGuardWords));
    place = {0, shape.threads, 0, shape.blocks, reinterpret_cast<unsigned char*>(shared_.data())};
    for (const std::int64_t block : in_order(shape.blocks)) {
      place.block = block;
      run_block();
    }
  }

  Thread& self() { return threads_[static_cast<std::size_t>(place.thread)]; }

  // Suspends the calling thread until the scheduler has released it.
  void wait(State state, const Where& where) {
    Thread& thread = self();
    thread.state = state;
    thread.waits_at = {where.file_name(), where.line()};
    Worker& worker = *thread.worker;
    worker.scheduler = std::move(worker.scheduler).resume();
  }

 private:
  void run_block() {
    std::fill(shared_.begin(), shared_.end(), kPoison);
    threads_.resize(static_cast<std::size_t>(place.threads));
    for (Thread& thread : threads_) {
      thread.state = State::fresh;
      thread.copies.clear();
      thread.groups = 0;
    }
    ended_ = 0;
    while (ended_ < place.threads) {
      phase_ = in_order(place.threads);
      for (next_ = 0; next_ < phase_.size();) step(phase_[next_++]);
      if (ended_ < place.threads) release();
    }
    if (std::count(shared_.end() - kGuardWords, shared_.end(), kPoison) != kGuardWords) {
      throw EmulationError("written beyond the block's shared memory");
    }
  }

  void step(int t) {
    Thread& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state == State::fresh) {
      thread.worker = idle_worker();
    } else if (thread.state != State::runnable) {
      return;
    }
    place.thread = t;
    Worker& worker = *thread.worker;
    worker.fiber = std::move(worker.fiber).resume();
    if (failure_) fail();
  }

  Worker* idle_worker() {
    if (!idle_.empty()) {
      Worker* worker = idle_.back();
      idle_.pop_back();
      return worker;
    }
    Worker& worker = workers_.emplace_back();
    worker.fiber = boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(kStack),
                                         [this, &worker](boost::context::fiber&& from) {
                                           worker.scheduler = std::move(from);
                                           worker.top = static_cast<char*>(__builtin_frame_address(0));
                                           for (;;) run_threads(worker);
                                           return boost::context::fiber();
                                         });
    return &worker;
  }

  // The thread that the scheduler named, then the phase's next ones while they are fresh: threads that never
  // wait cost no switch.
  void run_threads(Worker& worker) {
    try {
      for (;;) {
        (*body_)();
        if (!self().copies.empty()) throw EmulationError("a thread ends while copies of it are on their way");
        self().state = State::ended;
        ++ended_;
        if (next_ >= phase_.size() || threads_[static_cast<std::size_t>(phase_[next_])].state != State::fresh) break;
        place.thread = phase_[next_++];
        self().worker = &worker;
      }
    } catch (const boost::context::detail::forced_unwind&) {
      forget_frames(worker, __builtin_frame_address(0));
      throw;
    } catch (...) {
      forget_frames(worker, __builtin_frame_address(0));
      failure_ = std::current_exception();
    }
    idle_.push_back(&worker);
    worker.scheduler = std::move(worker.scheduler).resume();
  }

  // All threads wait or have ended: full warps exchange first, else the block passes its barrier.
  void release() {
    bool released = false;
    for (int first = 0; first < place.threads; first += kWarp) released |= release_warp(first);
    if (released) return;
    const Thread& one = threads_[0];
    for (const Thread& thread : threads_) {
      if (thread.state == State::ended) fail("a barrier is not reached by every thread of its block");
      if (thread.state != State::at_barrier) fail("a shuffle is not reached by every thread of its warp");
      if (thread.waits_at != one.waits_at) fail("threads of a block wait at different barriers");
    }
    for (Thread& thread : threads_) thread.state = State::runnable;
  }

  bool release_warp(int first) {
    const int last = std::min(first + kWarp, place.threads);
    const auto at = [&](int t) -> Thread& { return threads_[static_cast<std::size_t>(t)]; };
    const State state = at(first).state;
    if (state != State::at_exchange && state != State::at_product) return false;
    for (int t = first; t < last; ++t) {
      if (at(t).state != state) return false;
    }
    for (int t = first; t < last; ++t) {
      if (at(t).waits_at != at(first).waits_at) fail("threads of a warp wait at different shuffles");
    }
    if (state == State::at_product) {
      if (last - first != kWarp) fail("a product of a warp that is not whole");
      multiply(&at(first));
    }
    for (int t = first; t < last && state == State::at_exchange; ++t) {
      if (first + at(t).wanted >= last) fail("a shuffle asks a thread that the block does not have");
      at(t).taken = at(first + at(t).wanted).given;
    }
    for (int t = first; t < last; ++t) at(t).state = State::runnable;
    return true;
  }

  // PTX's layout, element by element: who holds row i and term k of A, term k and column j of B, and (i, j) of D.
  void multiply(const Thread* lanes) {
    const auto byte = [](std::uint32_t word, int i) { return std::int64_t{static_cast<std::int8_t>(word >> 8 * i)}; };
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        int& d = lanes[i % 8 * 4 + j / 2].product.d[i / 8 * 2 + j % 2];
        std::int64_t sum = d;
        for (int k = 0; k < 32; ++k) {
          const std::uint32_t a = lanes[i % 8 * 4 + k % 16 / 4].product.a[k / 16 * 2 + i / 8];
          const std::uint32_t b = lanes[j * 4 + k % 16 / 4].product.b[k / 16];
          sum += byte(a, k % 4) * byte(b, k % 4);
        }
        if (sum != static_cast<int>(sum)) fail("a sum of products of int8 overflows its int32");
        d = static_cast<int>(sum);
      }
    }
  }

  [[noreturn]] void fail(const char* what) {
    failure_ = std::make_exception_ptr(EmulationError(what));
    fail();
  }
  [[noreturn]] void fail() {
    idle_.clear();
    workers_.clear();  // unwinds the threads that wait
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  const std::function<void()>* body_ = nullptr;
  std::vector<std::uint32_t> shared_;
  std::vector<Thread> threads_;
  std::deque<Worker> workers_;
  std::vector<Worker*> idle_;
  std::vector<int> phase_;  // this round's order
  std::size_t next_ = 0;
  int ended_ = 0;
  std::exception_ptr failure_;
};

Machine machine;

void deliver(const Copy& copy) {
  const auto bytes = static_cast<std::size_t>(copy.bytes);
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, bytes);
  } else {
    std::memcpy(copy.to, copy.from, bytes);
  }
}

// Memory ends where its page does, and the next page belongs to nobody: what reads beyond it dies at once.
struct Pages {
  char* first;
  std::size_t bytes;
};
std::unordered_map<void*, Pages> scratches;

void* allocate(std::size_t bytes, void*) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + 15) / 16 * 16, whole = (used + page - 1) / page * page + page;
  void* const pages = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  char* const end = static_cast<char*>(pages) + whole - page;
  if (mprotect(end, page, PROT_NONE) != 0) throw std::bad_alloc();
  auto* const words = reinterpret_cast<std::uint32_t*>(end - used);
  std::fill(static_cast<std::uint32_t*>(pages), words + used / 4, kPoison);  // what lies before it, too
  scratches[words] = {static_cast<char*>(pages), whole};
  return words;
}
void release(void* memory, void*) {
  const auto found = scratches.find(memory);
  munmap(found->second.first, found->second.bytes);
  scratches.erase(found);
}

}  // namespace

void set_thread_order(ThreadOrder order) { thread_order = order; }

std::vector<Site> take_sites() {
  met.clear();
  return std::exchange(sites, {});
}
void omit(const Site& site) { omitted = site; }

namespace emulation {

const Place& place() { return machine.place; }

void wait_block(const Where& where) {
  if (is_kept(where)) machine.wait(State::at_barrier, where);
}

std::uint64_t exchange(std::uint64_t value, int lane, const Where& where) {
  if (!is_kept(where)) return value;
  Thread& self = machine.self();
  self.given = value;
  self.wanted = lane;
  machine.wait(State::at_exchange, where);
  return self.taken;
}

void multiply_in_warp(const WarpProduct& product, const Where& where) {
  if (!is_kept(where)) return;
  machine.self().product = product;
  machine.wait(State::at_product, where);
}

void start_copy(void* to, const void* from, int bytes) {
  require_aligned(to, static_cast<std::size_t>(bytes));
  require_aligned(from, static_cast<std::size_t>(bytes));
  for (int i = 0; i < bytes; i += 4) std::memcpy(static_cast<char*>(to) + i, &kPoison, 4);
  machine.self().copies.push_back({to, from, bytes, -1});
}

void commit_copies() {
  Thread& self = machine.self();
  for (Copy& copy : self.copies) {
    if (copy.group < 0) copy.group = self.groups;
  }
  ++self.groups;
}

void wait_copies(int groups, const Where& where) {
  if (!is_kept(where)) return;
  Thread& self = machine.self();
  std::erase_if(self.copies, [&](const Copy& copy) {
    const bool due = copy.group >= 0 && copy.group < self.groups - groups;
    if (due) deliver(copy);
    return due;
  });
}

void run(const Launch& shape, const std::function<void()>& body) { machine.run(shape, body); }

}  // namespace emulation

void copy_to_host(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void copy_to_device(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
void fill_bytes(void* memory, int value, std::int64_t bytes) {
  std::memset(memory, value, static_cast<std::size_t>(bytes));
}
int multiprocessors() { return 2; }
std::int64_t shared_memory_limit() { return 227 * 1024; }

const DeviceBackend& backend() {
  static const KernelTable table = make_table();
  static const DeviceBackend backend{
      "emulated", &table, {allocate, release}, [] { return 1; }, [](int) { return std::string("emulated device"); }};
  return backend;
}

}  // namespace isobit::kernels::emulated
