// Memory that is refused in the middle of a kernel changes nothing that lives longer than the call, and the next call
// is right. Scratch comes from the aligned operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/group_norm.h"
#include "kernels/sweep.h"

namespace {
std::atomic<int> allocations_left{-1};  // -1: all that are asked for
}

void* operator new(std::size_t size, std::align_val_t alignment) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  const auto step = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(step, (size + step - 1) / step * step);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

// Calls run, whose memory is refused at its first, second, ... allocation, until one call gets all it asks for; how
// many were refused. Each on a new thread, whose scratch is empty.
int refused_calls(const std::function<void()>& run, const std::function<void()>& after_refusal) {
  for (int allowed = 0;; ++allowed) {
    bool refused = false;
    set_thread_count(1);  // the pool's threads are new ones, too
    set_thread_count(2);
    std::thread([&] {
      allocations_left = allowed;
      try {
        run();
      } catch (const std::bad_alloc&) {
        refused = true;
      }
      allocations_left = -1;
    }).join();
    if (!refused) return allowed;
    after_refusal();
  }
}

// Of run, refused until it is not: at least so many refusals where vectors compute, and then the reference's bits in
// `results`. before: makes ready for another run; after_refusal: what must hold then.
void expect_right_after_refusals(
    int least, const std::function<void()>& run, const std::vector<Floats*>& results,
    const std::function<void()>& before = [] {}, const std::function<void()>& after_refusal = [] {}) {
  before();
  const int refused = refused_calls(run, after_refusal);
  if (active_isa() != Isa::reference) {
    EXPECT_GE(refused, least);
  }
  std::vector<Floats> found;
  for (const Floats* result : results) found.push_back(*result);
  const IsaScope plain(Isa::reference);
  before();
  run();
  for (std::size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(same_bits(found[i], *results[i])) << i;
}

TEST(RefusedMemory, LeavesRunningStatisticsAlone) {
  for (const ChannelShape& shape : {ChannelShape{600, 1500, 1}, ChannelShape{20, 300, 30}}) {
    const auto channels = static_cast<std::size_t>(shape.c);
    const Floats x = normal_floats(shape.n * shape.c * shape.inner, 1);
    Floats y(x.size()), mean(channels), variance(channels);
    const auto run = [&] {
      BatchNormForward p;
      p.shape = shape, p.x = x.data(), p.y = y.data();
      p.running_mean = mean.data(), p.running_variance = variance.data();
      batch_norm_training(p);
    };
    const auto before = [&] { mean.assign(channels, 0.5f), variance.assign(channels, 2.0f); };
    expect_right_after_refusals(2, run, {&y, &mean, &variance}, before, [&] {
      EXPECT_EQ(mean, Floats(channels, 0.5f));
      EXPECT_EQ(variance, Floats(channels, 2.0f));
    });
  }
}

TEST(RefusedMemory, LeavesTheNextGradientsRight) {
  const GroupShape shape{600, 300, 1, 1};
  const Floats x = normal_floats(shape.n * shape.c, 1), dy = normal_floats(shape.n * shape.c, 2);
  const Floats mean(600, 0.1f), invstd(600, 1.5f);
  Floats dx(x.size()), dweight(300), dbias(300);
  const auto run = [&] {
    group_norm_backward({.shape = shape,
                         .x = x.data(),
                         .dy = dy.data(),
                         .mean = mean.data(),
                         .invstd = invstd.data(),
                         .dx = dx.data(),
                         .dweight = dweight.data(),
                         .dbias = dbias.data()});
  };
  expect_right_after_refusals(1, run, {&dx, &dweight, &dbias});
}

TEST(RefusedMemory, LeavesTheNextConvolutionRight) {
  Conv2dShape s{.n = 3, .ci = 24, .h = 20, .w = 20, .co = 48, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1};
  s.groups = 24;
  const Floats x = normal_floats(s.n * s.ci * s.h * s.w, 1), weight = normal_floats(s.co * 9, 2);
  const Floats dy = normal_floats(s.n * s.co * s.h * s.w, 3);
  Floats y(dy.size()), dx(x.size()), dweight(weight.size());
  const auto run = [&] {
    conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
    conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
    conv2d_weight_gradient(s, x.data(), dy.data(), dweight.data());
  };
  expect_right_after_refusals(1, run, {&y, &dx, &dweight});
}

}  // namespace
}  // namespace isobit::kernels
