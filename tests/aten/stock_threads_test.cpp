// Stock's kernels divide their work, or do not, and nobody else's threads change.
#include "aten/stock_threads.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <thread>

#include "aten/guard.h"
#include "aten/operator_switch.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

class StockThreads : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(3); }
  void TearDown() override { at::set_num_threads(1); }
};

TEST_F(StockThreads, SmallWorkStaysOnItsCallerWhileAScopeLives) {
  {
    const StockOnCaller outer(kWorthStocksThreads - 1);
    ASSERT_TRUE(StockOnCaller::lives()) << "PyTorch's OpenMP was not found";
    EXPECT_EQ(at::get_num_threads(), 1);
    EXPECT_EQ(stock_thread_count(), 3);
    {
      const StockOnCaller inner(10);
      EXPECT_EQ(stock_thread_count(), 3);
    }
    EXPECT_EQ(at::get_num_threads(), 1) << "the inner scope ended the outer one";
    std::thread([] {
      EXPECT_FALSE(StockOnCaller::lives());
      EXPECT_EQ(stock_thread_count(), at::get_num_threads());
    }).join();
  }
  EXPECT_FALSE(StockOnCaller::lives());
  EXPECT_EQ(at::get_num_threads(), 3);
}

TEST_F(StockThreads, LargeWorkAndOneThreadAreLeftAlone) {
  {
    const StockOnCaller scope(kWorthStocksThreads);
    EXPECT_EQ(at::get_num_threads(), 3);
  }
  const Tensor large = at::ones({kWorthStocksThreads}), small = at::ones({5});
  const auto lives = [](const torch::jit::Stack& stack, std::size_t count) {
    const StockOnCaller scope(stack, count);
    return StockOnCaller::lives();
  };
  EXPECT_TRUE(lives({large, small, 2.0, c10::IValue()}, 3)) << "the last three";
  EXPECT_FALSE(lives({large, small, 2.0, c10::IValue()}, 4));
  EXPECT_FALSE(lives({std::vector<Tensor>{small, large}, 0}, 2)) << "a list";
  EXPECT_FALSE(lives({std::vector<Tensor>(3, at::ones({kWorthStocksThreads / 2})), 0}, 2)) << "together";
  EXPECT_TRUE(lives({std::vector<Tensor>{small}, Tensor(), 0}, 3));
  at::set_num_threads(1);
  EXPECT_FALSE(lives({small}, 1)) << "nothing to change";
}

TEST_F(StockThreads, AnErrorLeavesTheCount) {
  const Guard guard;
  EXPECT_ANY_THROW(at::cat({at::ones({3}), at::ones({2, 2})}));
  EXPECT_ANY_THROW(at::ones({3}).index_select(0, at::full({1}, 7, at::kLong)));
  EXPECT_ANY_THROW(at::ones({3}).index_select(4, at::zeros({1}, at::kLong)));
  EXPECT_EQ(at::get_num_threads(), 3);
}

int threads_here() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return static_cast<int>(std::distance(begin(threads), end(threads)));
}

// How many threads the operators of medium tensors make, in a child, which begins with none of torch's.
int threads_of_operators() {
  at::set_num_threads(40);
  const kernels::ThreadCountScope one(1);  // of ours
  const OperatorSwitch on;
  const int before = threads_here();
  const Tensor x = at::ones({300, 400}), row = at::ones({400}), index = at::arange(300), long_index = at::arange(70000);
  for (const Tensor& y : {x * row,          x + row,
                          x - row,          x / row,
                          at::cat({x, x}),  x.tril(),
                          x.gt(row),        x.index_select(0, index),
                          x.flip(0),        x.gather(0, index.unsqueeze(1).expand({300, 400})),
                          x.roll(3),        at::where(x > 0, x, row),
                          x.neg(),          x.index({index}),
                          x.repeat({2, 1}), x.to(at::kDouble),
                          long_index + 1,   long_index.cumsum(0),
                          x.isnan(),        long_index.sum()}) {
    if (!y.defined()) return 100;
  }
  return threads_here() - before;
}

// Each barrier of torch's pool takes 10 ms and more on cores that others use: none of these operators reaches it.
TEST_F(StockThreads, OperatorsOfMediumTensorsMakeNoThreads) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // where they do, they wait for threads that the child has not got
    ::_exit(threads_of_operators());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace isobit::aten
