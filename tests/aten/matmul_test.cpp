// Matrix products: values, gradients, strides, variants; the kernel's bits; batch splits.
#include "kernels/matmul.h"

#include "contract/ordered_dot.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

TEST(Matmul, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(3);
  const Case cases[] = {
      {"mm", {at::randn({33, 700}), at::randn({700, 17})}, [](const Tensors& x) { return at::mm(x[0], x[1]); }},
      {"mm of one", {at::randn({1, 1}), at::randn({1, 1})}, [](const Tensors& x) { return at::mm(x[0], x[1]); }},
      {"mm k = 0", {at::randn({4, 0}), at::randn({0, 3})}, [](const Tensors& x) { return at::mm(x[0], x[1]); }},
      {"mm no rows", {at::randn({0, 5}), at::randn({5, 3})}, [](const Tensors& x) { return at::mm(x[0], x[1]); }},
      {"mm of transposes",
       {at::randn({90, 31}), at::randn({40, 90})},
       [](const Tensors& x) { return at::mm(x[0].t(), x[1].t()); }},
      {"addmm",
       {at::randn({9}), at::randn({21, 64}), at::randn({64, 9})},
       [](const Tensors& x) { return at::addmm(x[0], x[1], x[2]); }},
      {"addmm with factors",
       {at::randn({21, 1}), at::randn({21, 64}), at::randn({64, 9})},
       [](const Tensors& x) { return at::addmm(x[0], x[1], x[2], 0.3, -1.7); }},
      {"linear",
       {at::randn({5, 6, 40}), at::randn({13, 40}), at::randn({13})},
       [](const Tensors& x) { return at::linear(x[0], x[1], x[2]); }},
      {"bmm", {at::randn({7, 5, 30}), at::randn({7, 30, 4})}, [](const Tensors& x) { return at::bmm(x[0], x[1]); }},
      {"baddbmm",
       {at::randn({5, 4}), at::randn({7, 5, 30}), at::randn({7, 30, 4})},
       [](const Tensors& x) { return at::baddbmm(x[0], x[1], x[2], 2, 0.5); }},
      {"addbmm",
       {at::randn({5, 4}), at::randn({7, 5, 300}), at::randn({7, 300, 4})},
       [](const Tensors& x) { return at::addbmm(x[0], x[1], x[2], 2, 0.5); }},
      {"mv", {at::randn({50, 600}), at::randn({600})}, [](const Tensors& x) { return at::mv(x[0], x[1]); }},
      {"addmv",
       {at::randn({50}), at::randn({50, 600}), at::randn({600})},
       [](const Tensors& x) { return at::addmv(x[0], x[1], x[2], 0.5, 3); }},
      {"dot", {at::randn({2000}), at::randn({2000})}, [](const Tensors& x) { return at::dot(x[0], x[1]); }},
      {"addr",
       {at::randn({6, 5}), at::randn({6}), at::randn({5})},
       [](const Tensors& x) { return at::addr(x[0], x[1], x[2], 2, 3); }},
      {"outer", {at::randn({6}), at::randn({5})}, [](const Tensors& x) { return at::outer(x[0], x[1]); }},
      {"matmul, broadcast batch",
       {at::randn({3, 1, 8, 20}), at::randn({2, 20, 6})},
       [](const Tensors& x) { return at::matmul(x[0], x[1]); }},
      {"tensordot",
       {at::randn({3, 8, 20}), at::randn({20, 3, 6})},
       [](const Tensors& x) {
         return at::tensordot(x[0], x[1], {0, -1}, {1, 0});
       }},
      {"tensordot over everything (stock's way depends on strides)",
       {at::randn({30, 40}), at::randn({30, 40})},
       [](const Tensors& x) {
         return at::tensordot(x[0], x[1], {0, 1}, {0, 1});
       }},
      {"tensordot with a single entry",
       {at::randn({5, 1}), at::randn({7, 4})},
       [](const Tensors& x) { return at::tensordot(x[0], x[1], {1}, {0}); }},
  };
  for (const Case& c : cases) check(c);
}

TEST(Matmul, HasTheBitsOfTheDefinition) {
  at::manual_seed(4);
  const Tensor a = at::randn({5, 1100}), b = at::randn({1100, 6}), d = at::randn({6});
  const aten::OperatorSwitch on;
  const Tensor product = at::mm(a, b), with_bias = at::addmm(d, a, b), scaled = at::addmm(d, a, b, 0.3, 1.7);
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 6; ++j) {
      const float tree = contract::ordered_dot(a.data_ptr<float>() + i * 1100, 1, b.data_ptr<float>() + j, 6, 1100);
      const float bias = d.data_ptr<float>()[j];
      EXPECT_EQ(product[i][j].item<float>(), tree);
      EXPECT_EQ(with_bias[i][j].item<float>(), bias + tree);
      EXPECT_EQ(scaled[i][j].item<float>(), 0.3f * bias + 1.7f * tree);
    }
  }
}

TEST(Matmul, ABatchSplitKeepsTheBits) {
  at::manual_seed(5);
  const Tensor x = at::randn({64, 300}), w = at::randn({20, 300}), b = at::randn({20});
  const aten::OperatorSwitch on;
  const Tensor whole = at::linear(x, w, b);
  for (const int size : {1, 5, 32}) {
    Tensors parts;
    for (const Tensor& part : x.split(size)) parts.push_back(at::linear(part, w, b));
    EXPECT_TRUE(same_bits(at::cat(parts), whole)) << "parts of " << size;
  }
  EXPECT_TRUE(same_bits(at::matmul(x, w.t()).add(b), whole)) << "a fused operator has its composition's bits";
  EXPECT_TRUE(same_bits(at::mv(x, w[3]), at::mm(x, w.t()).select(1, 3)));
  EXPECT_TRUE(same_bits(at::dot(x[2], w[3]), at::mm(x, w.t())[2][3]));
}

TEST(Matmul, InPlaceAndOutGiveTheSame) {
  at::manual_seed(6);
  const Tensor a = at::randn({8, 40}), b = at::randn({40, 8}), d = at::randn({8, 8});
  const Tensor p = at::randn({3, 8, 40}), q = at::randn({3, 40, 8}), e = at::randn({3, 8, 8}), v = at::randn({40});
  const aten::OperatorSwitch on;
  const auto out = [](const Tensor& like) { return at::empty_like(like); };
  Tensor r = out(d);
  EXPECT_TRUE(same_bits(at::mm_out(r, a, b), at::mm(a, b)));
  EXPECT_TRUE(same_bits(at::addmm_out(r, d, a, b, 2, 3), at::addmm(d, a, b, 2, 3)));
  EXPECT_TRUE(same_bits(d.clone().addmm_(a, b, 2, 3), at::addmm(d, a, b, 2, 3)));
  EXPECT_TRUE(same_bits(e.clone().baddbmm_(p, q, 2, 3), at::baddbmm(e, p, q, 2, 3)));
  EXPECT_TRUE(same_bits(d.clone().addbmm_(p, q, 2, 3), at::addbmm(d, p, q, 2, 3)));
  Tensor s = out(e), t = at::empty({8}), u = at::empty({8});
  EXPECT_TRUE(same_bits(at::bmm_out(s, p, q), at::bmm(p, q)));
  EXPECT_TRUE(same_bits(at::mv_out(t, a, v), at::mv(a, v)));
  EXPECT_TRUE(same_bits(at::addmv_out(u, t, a, v), at::addmv(t, a, v)));
  EXPECT_TRUE(same_bits(t.clone().addmv_(a, v), at::addmv(t, a, v)));
  EXPECT_TRUE(same_bits(d.clone().addr_(t, u), at::addr(d, t, u)));
}

TEST(Matmul, AnOutputMayOverlapAnInput) {
  at::manual_seed(7);
  const Tensor a = at::randn({16, 16}), b = at::randn({16, 16}), narrow = at::randn({16, 4});
  const aten::OperatorSwitch on;
  const Tensor expected = at::mm(a, b);
  Tensor same = a.clone();
  at::mm_out(same, same, b);
  EXPECT_TRUE(same_bits(same, expected));
  Tensor columns = at::zeros({16, 32}).narrow(1, 3, 16);  // not contiguous
  at::mm_out(columns, a, b);
  EXPECT_TRUE(same_bits(columns, expected));
  Tensor resized = a.clone();  // becomes smaller while it is read
  const Tensor small = at::mm(a, narrow);
  at::mm_out(resized, resized, narrow);
  EXPECT_TRUE(same_bits(resized, small));
}

TEST(Matmul, BetaZeroDoesNotReadTheAddend) {
  const Tensor nan = at::full({2, 2}, std::nan("")), a = at::ones({2, 3}), b = at::ones({3, 2});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::addmm(nan, a, b, 0), at::full({2, 2}, 3.0)));
}

TEST(Matmul, IntegersPassAndOtherTypesAreRefused) {
  const Tensor i = at::arange(6).view({2, 3});
  const Tensor expected = at::mm(i, i.t());
  const Tensor half = at::ones({2, 2}, at::kHalf), twice = at::ones({2, 2}, at::kDouble), one = at::ones({2, 2});
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(at::mm(i, i.t()), expected));
  EXPECT_TRUE(same_bits(at::mm(half, half), at::full({2, 2}, 2.0, at::kHalf)));
  expect_throws([&] { at::mm(one, half); }, "tensors of one type expected, got Float and Half");
  EXPECT_TRUE(same_bits(at::mm(twice, twice), at::full({2, 2}, 2.0, at::kDouble)));
  expect_throws([&] { at::mm(one, twice); }, "Double");
  expect_throws([&] { at::mm(one, at::ones({3, 2})); }, "cannot multiply");
  expect_throws([&] { at::addmm(at::ones({3}), one, one); }, "does not broadcast");
}

}  // namespace
}  // namespace isobit::test
