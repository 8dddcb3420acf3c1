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

TEST(RefusedMemory, LeavesRunningStatisticsAlone) {
  for (const ChannelShape& shape : {ChannelShape{600, 1500, 1}, ChannelShape{20, 300, 30}}) {
    const auto channels = static_cast<std::size_t>(shape.c);
    const Floats x = normal_floats(shape.n * shape.c * shape.inner, 1);
    Floats y(x.size()), mean(channels, 0.5f), variance(channels, 2.0f);
    const auto run = [&] {
      BatchNormForward p;
      p.shape = shape, p.x = x.data(), p.y = y.data();
      p.running_mean = mean.data(), p.running_variance = variance.data();
      batch_norm_training(p);
    };
    const int refused = refused_calls(run, [&] {
      EXPECT_EQ(mean, Floats(channels, 0.5f));
      EXPECT_EQ(variance, Floats(channels, 2.0f));
    });
    if (active_isa() != Isa::reference) {
      EXPECT_GE(refused, 2);
    }
    const Floats found = y, found_mean = mean, found_variance = variance;
    mean.assign(channels, 0.5f), variance.assign(channels, 2.0f);
    const IsaScope plain(Isa::reference);
    run();
    EXPECT_TRUE(same_bits(found, y) && same_bits(found_mean, mean) && same_bits(found_variance, variance));
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
  const int refused = refused_calls(run, [] {});
  if (active_isa() != Isa::reference) {
    EXPECT_GE(refused, 1);
  }
  const Floats found = dx, found_weight = dweight, found_bias = dbias;
  const IsaScope plain(Isa::reference);
  run();
  EXPECT_TRUE(same_bits(found, dx) && same_bits(found_weight, dweight) && same_bits(found_bias, dbias));
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
  const int refused = refused_calls(run, [] {});
  if (active_isa() != Isa::reference) {
    EXPECT_GE(refused, 1);
  }
  const Floats found = y, found_dx = dx, found_dweight = dweight;
  const IsaScope plain(Isa::reference);
  run();
  EXPECT_TRUE(same_bits(found, y) && same_bits(found_dx, dx) && same_bits(found_dweight, dweight));
}

}  // namespace
}  // namespace isobit::kernels
