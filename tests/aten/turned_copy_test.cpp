// Copies between memory formats: the same values in every pair of layouts, and only where both lie as promised.
#include "aten/turned_copy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>

#include "operator_cases.h"

namespace isobit::test {
namespace {

constexpr auto kLast = at::MemoryFormat::ChannelsLast;
constexpr auto kLast3d = at::MemoryFormat::ChannelsLast3d;

TEST(TurnedCopy, FormatsAndTransposes) {
  at::manual_seed(111);
  for (const int threads : {1, 3}) {
    const kernels::ThreadCountScope scope(threads);
    for (const at::DimVector& sizes :
         {at::DimVector{2, 33, 17, 5}, {1, 64, 9, 9}, {512, 70, 1, 3}, {64, 3, 31, 29}, {7, 40, 1, 13}}) {
      const Tensor x = at::randn(sizes), last = x.contiguous(kLast);
      Tensor first = at::full(sizes, NAN), again = at::full(sizes, NAN).contiguous(kLast);
      EXPECT_TRUE(aten::turned_copy(first, last)) << x.sizes();
      EXPECT_TRUE(aten::turned_copy(again, x)) << x.sizes();
      EXPECT_TRUE(same_bits(first, x) && same_bits(again, x)) << x.sizes();
      EXPECT_TRUE(same_bits(aten::in_row_major(last), x)) << x.sizes();
      EXPECT_TRUE(aten::in_row_major(last).is_contiguous());
      EXPECT_EQ(aten::in_format_of(last, x).strides(), last.strides());
      EXPECT_TRUE(same_bits(aten::in_format_of(last, x), x));
    }
    const Tensor matrix = at::randn({70, 131}), volume = at::randn({2, 9, 5, 6, 11});
    Tensor to = at::empty({131, 70}), flat = at::empty({2, 9, 5, 6, 11});
    EXPECT_TRUE(aten::turned_copy(to, matrix.t()));
    EXPECT_TRUE(same_bits(to, matrix.t()));
    EXPECT_TRUE(aten::turned_copy(flat, volume.contiguous(kLast3d)));
    EXPECT_TRUE(same_bits(flat, volume));
    const Tensor heads = at::randn({4, 30, 8, 16}).transpose(1, 2);  // neither is turned as a whole
    EXPECT_TRUE(same_bits(aten::in_row_major(heads), heads));
  }
}

TEST(TurnedCopy, LeavesAllOthersAlone) {
  const Tensor x = at::randn({3, 40, 50}), same = at::full({3, 40, 50}, 7), kept = same.clone();
  const auto refused = [&](const Tensor& to, const Tensor& from) { return !aten::turned_copy(to, from); };
  EXPECT_TRUE(refused(same, x));  // as it lies
  EXPECT_TRUE(refused(same, x.permute({2, 1, 0}).permute({2, 1, 0})));
  EXPECT_TRUE(refused(same, at::randn({50, 40, 3}).permute({2, 1, 0})));  // three groups in the other order
  EXPECT_TRUE(refused(same, at::randn({40, 3, 50}).transpose(0, 1)));     // the first ones changed places
  EXPECT_TRUE(refused(same, at::randn({3, 50, 80}).transpose(1, 2).slice(1, 0, 80, 2)));  // gaps
  EXPECT_TRUE(refused(same, at::randn({3, 50, 1}).transpose(1, 2).expand({3, 40, 50})));  // shared elements
  EXPECT_TRUE(refused(same, at::randn({3, 50, 40}).transpose(1, 2).to(at::kDouble)));
  EXPECT_TRUE(refused(same, at::real(at::randn({3, 50, 40}).to(at::kComplexFloat)).transpose(1, 2)));
  Tensor square = at::randn({60, 60});
  EXPECT_TRUE(refused(square, square.t()));  // its own memory
  EXPECT_TRUE(same_bits(same, kept));
  const Tensor small = at::randn({4, 5}).t();
  EXPECT_TRUE(refused(at::empty({5, 4}), small));
  EXPECT_TRUE(same_bits(aten::in_row_major(small), small));
}

// Words of any kind, whole and ragged blocks, through the operators that copy.
TEST(TurnedCopy, OperatorsThatCopy) {
  at::manual_seed(113);
  for (const int threads : {1, 2, 3}) {
    for (const at::DimVector& sizes : {at::DimVector{2, 33, 17, 5},
                                       {1, 5, 300, 300},
                                       {3, 4, 31, 29},
                                       {1, 3, 64, 65},
                                       {600, 2, 3, 3},
                                       {20, 1030, 3, 1}}) {
      const Tensor words = at::randint(std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max(), sizes, at::kInt);
      const Tensor x = words.view(at::kFloat), last = x.contiguous(kLast);
      const kernels::ThreadCountScope scope(threads);
      Tensor again, first, kept, written = at::zeros_like(x);
      {
        const aten::OperatorSwitch on;
        again = x.contiguous(kLast), first = last.contiguous(), kept = last.clone(at::MemoryFormat::Contiguous);
        written.copy_(last);
      }
      for (const Tensor& one : {again, first, kept, written})
        EXPECT_TRUE(at::equal(one.contiguous().view(at::kInt), words)) << x.sizes() << ", threads " << threads;
    }
  }
}

// Whoever records gradients still sees the copy.
TEST(TurnedCopy, GradientsPassThrough) {
  const aten::OperatorSwitch on;
  const Tensor x = at::randn({2, 33, 17, 5}).contiguous(kLast).requires_grad_();
  const Tensor y = aten::in_row_major(x);
  EXPECT_TRUE(y.is_contiguous() && y.requires_grad());
  y.mul(2).sum().backward();
  EXPECT_TRUE(same_bits(x.grad(), at::full(x.sizes(), 2.0f)));
}

// Without gradients a parameter is copied as any tensor is.
TEST(TurnedCopy, ParametersWithoutGradients) {
  const aten::OperatorSwitch on;
  const Tensor x = at::randn({2, 33, 17, 5}).contiguous(kLast).requires_grad_();
  const at::NoGradGuard no_grad;
  const Tensor y = aten::in_row_major(x);
  EXPECT_TRUE(y.is_contiguous() && !y.requires_grad());
  EXPECT_TRUE(same_bits(y, x.detach()));
}

// A model in channels last: the same bits, and gradients in the parameters' own format.
TEST(TurnedCopy, ConvolutionsInChannelsLast) {
  at::manual_seed(112);
  const Tensor x = at::randn({3, 16, 14, 14}), weight = at::randn({32, 16, 3, 3});
  const aten::OperatorSwitch on;
  const auto gradients = [&](const Tensor& given, const Tensor& kernel) {
    const Tensor input = given.clone().requires_grad_(), w = kernel.clone().requires_grad_();
    const Tensor y = at::conv2d(input, w, {}, 1, 1);
    y.backward(at::ones_like(y.contiguous()).mul(0.25));
    EXPECT_EQ(w.grad().strides(), kernel.strides());
    return Tensors{y.detach(), input.grad(), w.grad()};
  };
  EXPECT_TRUE(same_bits(gradients(x, weight), gradients(x.contiguous(kLast), weight.contiguous(kLast))));
  EXPECT_TRUE(same_bits(gradients(x, weight), gradients(x, weight.contiguous(kLast))));
}

}  // namespace
}  // namespace isobit::test
