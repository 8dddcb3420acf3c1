#include "kernels/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/dispatch/contention.h"
#include "kernels/dispatch/shares.h"
#include "kernels/float_environment.h"
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace isobit::kernels {
namespace {

std::vector<int> touched(std::int64_t n, std::int64_t smallest) {
  std::vector<int> count(static_cast<std::size_t>(n), 0);
  parallel_for(0, n, smallest, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i) ++count[static_cast<std::size_t>(i)];
  });
  return count;
}

TEST(ParallelFor, VisitsEveryIndexOnceForEveryThreadCount) {
  for (int threads : {1, 2, 3, 8}) {
    const ThreadCountScope scope(threads);
    for (std::int64_t n : {0, 1, 2, 7, 100, 1001}) {
      for (std::int64_t smallest : {1, 3, 64, 5000}) {
        for (int visits : touched(n, smallest)) ASSERT_EQ(visits, 1) << threads << " threads, n " << n;
      }
    }
  }
}

class ContentionTest : public ::testing::Test {
 protected:
  using Clock = Contention::Clock;
  using Seconds = Contention::Seconds;
  // A call of two threads, of which the caller did half.
  void call(double worked, double waited) {
    now_ += std::chrono::duration_cast<Clock::duration>(Seconds(worked + waited));
    contention_.add(now_, Seconds(worked), Seconds(waited), 0.5);
  }
  // Until when the caller works alone from now on, in seconds.
  double alone() {
    double seconds = 0;
    while (contention_.works_alone(now_ + std::chrono::duration_cast<Clock::duration>(Seconds(seconds))))
      seconds += 1e-3;
    return seconds;
  }
  void after(double seconds) { now_ += std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); }

  Contention contention_;
  Clock::time_point now_ = Clock::time_point() + std::chrono::hours(1);
};

TEST_F(ContentionTest, ThreadsThatHelpStay) {
  for (int i = 0; i < 10'000; ++i) call(1e-5, 1e-6);
  EXPECT_EQ(alone(), 0);
  EXPECT_FALSE(contention_.may_work_alone());
}

TEST_F(ContentionTest, OneHiccupIsForgiven) {
  for (int i = 0; i < 2000; ++i) call(1e-5, 0);
  call(1e-5, 0.0075);  // what was won before counts, but no more than 4 ms
  EXPECT_EQ(alone(), 0);
  for (int i = 0; i < 2000; ++i) call(1e-5, 0);
  call(1e-5, 0.0075);
  EXPECT_EQ(alone(), 0);
}

TEST_F(ContentionTest, WhoLosesWorksAloneForEverLongerWhiles) {
  double before = 0;
  for (const double expected : {0.025, 0.05, 0.1, 0.2, 0.2}) {
    for (int i = 0; i < 4 && alone() == 0; ++i) call(1e-4, 0.003);
    EXPECT_NEAR(alone(), expected, 0.002);
    before = alone();
    after(before + 1e-3);
    EXPECT_EQ(alone(), 0) << "then others are tried again";
  }
  for (int i = 0; i < 2000; ++i) call(1e-5, 0);  // and help
  for (int i = 0; i < 8 && alone() == 0; ++i) call(1e-4, 0.003);
  EXPECT_NEAR(alone(), 0.025, 0.002);
}

// The pool itself: threads that take long to do what the caller does at once.
TEST(ParallelFor, ACallerWorksAloneWhereOthersHoldItUp) {
  const auto whole_calls = [] {
    const std::thread::id caller = std::this_thread::get_id();
    int whole = 0;
    for (int i = 0; i < 40; ++i) {
      std::atomic<std::int64_t> sum{0};
      parallel_for(0, 2, 1, [&](std::int64_t b, std::int64_t e) {
        if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(std::chrono::milliseconds(6));
        if (e - b == 2) ++whole;  // the caller's alone
        sum += e - b;
        if (std::this_thread::get_id() == caller) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      });
      EXPECT_EQ(sum, 2);
    }
    return whole;
  };
  {
    const ThreadCountScope two(2);
    EXPECT_EQ(whole_calls(), 0) << "nobody asked for it";
  }
  give_way_to_others(true);
  const ThreadCountScope two(2);
  EXPECT_GT(whole_calls(), 0);
  give_way_to_others(false);
}

// Ranges that all have begun before one of them ends are on as many threads.
void on_threads_of_their_own(int count, const std::function<void(std::int64_t)>& work) {
  const ThreadCountScope scope(count);
  std::atomic<int> begun{0};
  parallel_for(0, count, 1, [&](std::int64_t b, std::int64_t) {
    ++begun;
    while (begun < count) std::this_thread::yield();
    work(b);
  });
}

TEST(ParallelFor, UsesSeveralThreads) {
  std::vector<std::thread::id> ids(3);
  on_threads_of_their_own(3, [&](std::int64_t i) { ids[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
  EXPECT_NE(ids[0], ids[2]);
}

// A thread that is held up, as by another process on its core, holds up the range that it has begun; the others do the
// rest meanwhile.
TEST(ParallelFor, AThreadThatIsHeldUpKeepsOneRange) {
  const ThreadCountScope scope(2);
  for (int round = 0; round < 50; ++round) {
    std::vector<int> count(900, 0);
    std::atomic<int> done{0};
    std::atomic<bool> held{false};
    const auto caller = std::this_thread::get_id();
    parallel_for(0, 900, 1, [&](std::int64_t b, std::int64_t e) {
      if (std::this_thread::get_id() != caller && !held.exchange(true)) {
        while (done < 900 - (e - b)) std::this_thread::yield();
      }
      for (std::int64_t i = b; i < e; ++i) ++count[static_cast<std::size_t>(i)];
      done += static_cast<int>(e - b);
    });
    EXPECT_EQ(count, std::vector<int>(900, 1));
  }
}

using Ranges = std::vector<std::pair<std::int64_t, std::int64_t>>;

// The ranges that [0, n) is cut into, from the first on.
Ranges ranges_of(std::int64_t n, std::int64_t smallest) {
  std::mutex mutex;
  Ranges ranges;
  parallel_for(0, n, smallest, [&](std::int64_t b, std::int64_t e) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(b, e);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ParallelFor, NoRangeIsSmallerThanItMayBe) {
  for (const int threads : {2, 3, 7}) {
    const ThreadCountScope scope(threads);
    for (const std::int64_t smallest : {1, 10, 50, 70, 120, 300, 1000}) {
      std::int64_t next = 0;
      for (const auto& [b, e] : ranges_of(1000, smallest)) {
        EXPECT_EQ(b, next);
        EXPECT_GE(e - b, smallest) << threads << " threads";
        next = e;
      }
      EXPECT_EQ(next, 1000);
    }
  }
}

TEST(Shares, CoverTheRangeInRoundsThatGetShorter) {
  for (const int parts : {1, 2, 3, 5, 64, 0xffff}) {
    for (int rounds = 1; rounds <= Shares::kMostRounds; ++rounds) {
      for (const std::int64_t n : {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, std::int64_t{100},
                                   std::int64_t{99999}, std::int64_t{1} << 61}) {
        const Shares shares{5, 5 + n, parts, rounds};
        ASSERT_EQ(shares.share(0), 5);
        ASSERT_EQ(shares.share(parts), 5 + n);
        for (int part = 0; part < parts; ++part) {
          const std::int64_t first = shares.share(part), last = shares.share(part + 1);
          ASSERT_EQ(shares.border(part, 0), first);
          ASSERT_EQ(shares.border(part, rounds), last);
          ASSERT_GE(last - first, n / parts);  // as many as others, or one more
          ASSERT_LE(last - first, n / parts + 1);
          for (int round = 1; round < rounds; ++round)
            ASSERT_GE(shares.border(part, round) - shares.border(part, round - 1),
                      shares.border(part, round + 1) - shares.border(part, round))
                << n << " in " << parts << ", round " << round;
        }
      }
    }
  }
}

// Where nobody is held up, what a thread writes in one call is its own in the next.
TEST(ParallelFor, AThreadBeginsWithItsOwnShare) {
  constexpr int kThreads = 4;
  const ThreadCountScope scope(kThreads);  // the same threads all along
  std::vector<std::thread::id> before;
  for (int call = 0; call < 20; ++call) {
    std::vector<std::thread::id> ids(kThreads);
    on_threads_of_their_own(kThreads,
                            [&](std::int64_t i) { ids[static_cast<std::size_t>(i)] = std::this_thread::get_id(); });
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    if (call > 0) {
      EXPECT_EQ(ids, before);
    }
    before = ids;
  }
}

// Calls follow each other at once, of different numbers of shares: who comes late to one takes nothing of the next.
TEST(ParallelFor, LateThreadsTakeNothingOfAnotherCall) {
  const ThreadCountScope scope(6);
  std::vector<std::atomic<int>> count(600);
  for (int call = 0; call < 20000; ++call) {
    const int n = 1 + call * 7 % 13;
    parallel_for(0, n, 1 + call % 3, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t i = b; i < e; ++i) count[static_cast<std::size_t>(i)].fetch_add(1, std::memory_order_relaxed);
    });
    for (int i = 0; i < n; ++i) ASSERT_EQ(count[static_cast<std::size_t>(i)].exchange(0), 1) << "call " << call;
  }
}

TEST(ParallelFor, NestedCallsRunInline) {
  const ThreadCountScope scope(4);
  std::atomic<int> total{0};
  parallel_for(0, 4, 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t i = b; i < e; ++i)
      parallel_for(0, 10, 1, [&](std::int64_t c, std::int64_t d) { total += static_cast<int>(d - c); });
  });
  EXPECT_EQ(total, 40);
}

TEST(ParallelFor, RethrowsAndStaysUsable) {
  const ThreadCountScope scope(2);
  EXPECT_THROW(parallel_for(0, 2, 1,
                            [](std::int64_t b, std::int64_t) {
                              if (b == 1) throw std::runtime_error("x");
                            }),
               std::runtime_error);
  for (int visits : touched(100, 1)) EXPECT_EQ(visits, 1);
}

TEST(ParallelFor, ConcurrentCallersAllFinish) {
  const ThreadCountScope scope(2);
  std::vector<std::thread> callers;
  std::atomic<std::int64_t> total{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) parallel_for(0, 64, 1, [&](std::int64_t b, std::int64_t e) { total += e - b; });
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 64);
}

TEST(ParallelFor, SurvivesFork) {
  const ThreadCountScope scope(2);
  (void)touched(10, 1);  // the parent's pool exists
  const pid_t child = fork();
  if (child == 0) {
    bool good = thread_count() == 2;
    for (int visits : touched(1000, 1)) good = good && visits == 1;
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they reserve address space themselves
// A system that gives no more threads: their caller does the work.
TEST(ParallelFor, GoesOnWithoutThreads) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{std::size_t{4} << 30, std::size_t{4} << 30};  // 4,000 stacks take 32 GiB
    setrlimit(RLIMIT_AS, &limit);
    set_thread_count(4000);
    for (int call = 0; call < 2; ++call) {
      for (const int visits : touched(5000, 1))
        if (visits != 1) _exit(1);
    }
    set_thread_count(2);
    for (const int visits : touched(5000, 1))
      if (visits != 1) _exit(2);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
#endif

TEST(Threads, ZeroIsRefused) { EXPECT_THROW(set_thread_count(0), std::invalid_argument); }

#if defined(__x86_64__)
TEST(FloatEnvironment, UndoesFlushToZeroWithinItsScope) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
  EXPECT_FALSE(float_environment_is_ieee());
  {
    const FloatEnvironment environment;
    EXPECT_TRUE(float_environment_is_ieee());
    volatile float tiny = 0x1p-140f;
    EXPECT_NE(tiny * 1.0f, 0.0f);
  }
  EXPECT_FALSE(float_environment_is_ieee());  // theirs is given back
  _mm_setcsr(before);
}
#endif

TEST(FloatEnvironment, PoolThreadsKeepSubnormals) {
  std::vector<int> ieee(3, 0);
  on_threads_of_their_own(3, [&](std::int64_t i) { ieee[static_cast<std::size_t>(i)] = float_environment_is_ieee(); });
  EXPECT_EQ(ieee, (std::vector<int>{1, 1, 1}));
}

TEST(Threads, InlineScopeKeepsItsThreadOutOfThePool) {
  const ThreadCountScope scope(3);
  const auto parts = [] {
    std::atomic<int> ranges{0};
    parallel_for(0, 8, 1, [&](std::int64_t, std::int64_t) { ++ranges; });  // too few to be cut twice
    return ranges.load();
  };
  {
    const InlineScope beside;
    EXPECT_EQ(parts(), 1);
    { const InlineScope nested; }
    EXPECT_EQ(parts(), 1);
    int elsewhere = 0;
    std::thread([&] { elsewhere = parts(); }).join();
    EXPECT_EQ(elsewhere, 3);
  }
  EXPECT_EQ(parts(), 3);
}

thread_local int asked_for = 1;

TEST(Threads, ASourceGovernsEachCaller) {
  const auto parts = [] {
    std::atomic<int> ranges{0};
    parallel_for(0, 8, 1, [&](std::int64_t, std::int64_t) { ++ranges; });  // too few to be cut twice
    return ranges.load();
  };
  const int before = thread_count();
  set_thread_count_source([] { return asked_for; });
  for (const int count : {1, 3, 2, 8, 1}) {
    asked_for = count;
    EXPECT_EQ(thread_count(), count);
    EXPECT_EQ(parts(), count);
  }
  asked_for = 5;
  std::thread([&] { EXPECT_EQ(parts(), 1) << "another thread's own setting"; }).join();
  EXPECT_EQ(parts(), 5);
  set_thread_count_source(nullptr);
  EXPECT_EQ(thread_count(), before);
}

}  // namespace
}  // namespace isobit::kernels
