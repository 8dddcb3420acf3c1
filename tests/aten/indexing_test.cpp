// Indexing with gradients, additions by index, running sums.
#include "kernels/indexed.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

Tensor places(std::int64_t n, std::int64_t rows) { return at::arange(n).mul(7).remainder(rows); }

TEST(Indexing, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(100);
  const Tensor x = at::randn({9, 6, 5}), tokens = places(700, 9).view({7, 100}), few = places(13, 6);
  const Tensor each = places(9 * 4 * 5, 6).view({9, 4, 5});
  const auto on = [](const Tensor& index, const Tensors& t) { return index.to(t[0].device()); };
  const Case cases[] = {
      {"embedding", {at::randn({9, 20})}, [=](const Tensors& t) { return at::embedding(t[0], on(tokens, t)); }},
      {"embedding with padding",
       {at::randn({9, 20})},
       [=](const Tensors& t) { return at::embedding(t[0], on(tokens, t), 3); }},
      {"embedding by frequency",
       {at::randn({9, 20})},
       [=](const Tensors& t) { return at::embedding(t[0], on(tokens, t), -1, true); }},
      {"index_select", {x}, [=](const Tensors& t) { return t[0].index_select(1, on(few, t)); }},
      {"gather", {x}, [=](const Tensors& t) { return t[0].gather(1, on(each, t)); }},
      {"index_add", {x, at::randn({9, 13, 5})}, [=](const Tensors& t) { return t[0].index_add(1, on(few, t), t[1]); }},
      {"index_add with alpha",
       {x, at::randn({9, 13, 5})},
       [=](const Tensors& t) { return t[0].index_add(1, on(few, t), t[1], 0.3); }},
      {"scatter_add",
       {x, at::randn({9, 4, 5})},
       [=](const Tensors& t) { return t[0].scatter_add(1, on(each, t), t[1]); }},
      {"cumsum", {x}, [](const Tensors& t) { return t[0].cumsum(1); }},
      {"cumsum of the last", {at::randn({4, 900})}, [](const Tensors& t) { return t[0].cumsum(-1); }, 1e-4},
      {"cumprod", {x}, [](const Tensors& t) { return t[0].cumprod(2); }},
      {"logsumexp",
       {x},
       [](const Tensors& t) {
         return t[0].logsumexp({1, 2});
       }},
  };
  for (const Case& c : cases) check(c);
}

// The gradient of x[index] sums what met one place.
TEST(Indexing, GradientsOfIndexing) {
  at::manual_seed(103);
  const Tensor x = at::randn({9, 6, 5}), mask = at::randn({9, 6}).gt(0);
  const Tensor rows = places(20, 9), columns = places(20, 6), last = places(20, 5);
  const auto on = [](const Tensor& index, const Tensors& t) { return index.to(t[0].device()); };
  using at::indexing::Slice;
  const Case cases[] = {
      {"rows", {x}, [=](const Tensors& t) { return t[0].index({on(rows, t)}); }},
      {"columns",
       {x},
       [=](const Tensors& t) {
         return t[0].index({Slice(), on(columns, t)});
       }},
      {"pairs",
       {x},
       [=](const Tensors& t) {
         return t[0].index({on(rows, t), on(columns, t)});
       }},
      {"with a gap",
       {x},
       [=](const Tensors& t) {
         return t[0].index({on(rows, t), Slice(), on(last, t)});
       }},
      {"a mask", {x}, [=](const Tensors& t) { return t[0].index({on(mask, t)}); }},
      {"negative", {x}, [=](const Tensors& t) { return t[0].index({on(rows, t).sub(9)}); }},
      {"accumulating",
       {x, at::randn({20, 6, 5})},
       [=](const Tensors& t) { return t[0].index_put({on(rows, t)}, t[1], true); }},
  };
  for (const Case& c : cases) check(c);
}

#ifdef ISOBIT_FAKE_CUDA
// Of two writes to one place the later stays; every type; what is not named stays.
TEST(Indexing, WritesOnADeviceAreTheCpus) {
  if (!kFakeCuda) GTEST_SKIP();
  at::manual_seed(105);
  using at::indexing::Slice;
  const Tensor mask = at::randn({9, 6}).gt(0), rows = places(20, 9), columns = places(20, 6), last = places(20, 5);
  const aten::OperatorSwitch on;
  for (const at::ScalarType type : {at::kFloat, at::kLong, at::kInt, at::kBool, at::kByte}) {
    const Tensor x = at::randn({9, 6, 5}).abs().mul(9).to(type);
    const auto values = [&](at::IntArrayRef sizes) { return at::randn(sizes).abs().mul(9).to(type); };
    const Tensor twenty = values({20, 6, 5}), many = values({20}), one = values({});
    const auto expect = [&](const char* what, auto write) {
      const auto result = [&](at::Device device) {
        Tensor y = x.clone().to(device);
        write(y, [&](const Tensor& t) { return t.to(device); });
        return y.cpu();
      };
      EXPECT_TRUE(same_bits(result(at::Device(at::kCUDA, 0)), result(at::kCPU))) << what << ", " << type;
    };
    expect("rows", [&](Tensor& y, auto to) { y.index_put_({to(rows)}, to(twenty)); });
    expect("columns", [&](Tensor& y, auto to) { y.index_put_({Slice(), to(columns)}, to(values({5})).fill_(1)); });
    expect("elements", [&](Tensor& y, auto to) { y.index_put_({to(rows), to(columns), to(last)}, to(many)); });
    expect("negative, a gap", [&](Tensor& y, auto to) {
      y.index_put_({to(rows).sub(9), Slice(), to(last)}, to(many).unsqueeze(1));
    });
    expect("a mask", [&](Tensor& y, auto to) { y.index_put_({to(mask)}, to(one)); });
    expect("a mask, a scalar of the host", [&](Tensor& y, auto to) { y.index_put_({to(mask)}, one); });
    expect("a mask, rows", [&](Tensor& y, auto to) {
      y.index_put_({to(mask)}, to(x).flatten(0, 1).narrow(0, 0, mask.sum().item<std::int64_t>()));
    });
    expect("itself", [&](Tensor& y, auto to) { y.index_put_({to(rows).narrow(0, 0, 9)}, y.flip(0)); });
    expect("transposed", [&](Tensor& y, auto to) {
      y.transpose(0, 2).index_put_({to(last)}, to(values({6, 9})).fill_(1));
    });
    expect("nothing", [&](Tensor& y, auto to) { y.index_put_({to(rows).narrow(0, 0, 0)}, to(one)); });
    expect("copied rows", [&](Tensor& y, auto to) { y.index_copy_(0, to(rows), to(twenty)); });
    expect("copied columns", [&](Tensor& y, auto to) {
      y = y.index_copy(
          1, to(columns),
          to(twenty).view({20, 30}).t().reshape({5, 6, 20}).permute({1, 2, 0}).repeat({2, 1, 1}).narrow(0, 0, 9));
    });
  }
  expect_throws(
      [&] {
        at::zeros({3}, at::Device(at::kCUDA, 0))
            .index_put_({at::tensor({3}).to(at::Device(at::kCUDA, 0))}, at::ones({1}).to(at::Device(at::kCUDA, 0)));
      },
      "out of bounds");
}
#endif

TEST(Indexing, Bags) {
  at::manual_seed(104);
  const Tensor tokens = places(40, 9), offsets = at::tensor({0, 7, 7, 30}, at::kLong);
  const auto bags = [=](std::int64_t mode, std::int64_t padding) {
    return [=](const Tensors& t) {
      const std::optional<Tensor> factors = t.size() > 1 ? std::optional<Tensor>(t[1].detach()) : std::nullopt;
      return std::get<0>(at::embedding_bag(t[0], tokens.to(t[0].device()), offsets.to(t[0].device()), false, mode,
                                           false, factors, false, padding));
    };
  };
  check({"sums", {at::randn({9, 20})}, bags(0, -1)});
  check({"means", {at::randn({9, 20})}, bags(1, -1)});
  check({"means without padding", {at::randn({9, 20})}, bags(1, 4)});
  check({"weighted sums", {at::randn({9, 20}), at::rand({40})}, bags(0, -1)});
  const aten::OperatorSwitch on;
  const Tensor weight = at::randn({9, 4});
  expect_throws([&] { at::embedding_bag(weight, tokens, offsets, false, 2); }, "sums and means");
}

TEST(Indexing, AHotRowTakesTheLeavesOfTheContract) {
  at::manual_seed(101);
  const Tensor dy = at::randn({1500, 3}), index = at::zeros({1500}, at::kLong);
  Tensor expected = at::zeros({3});
  const aten::OperatorSwitch on;
  for (std::int64_t i = 0; i < 3; ++i) {
    float leaf[3] = {};
    for (std::int64_t k = 0; k < 1500; ++k) leaf[k / 512] += dy.index({k, i}).item<float>();
    expected[i] = leaf[0] + leaf[1] + leaf[2];
  }
  EXPECT_TRUE(same_bits(at::embedding_dense_backward(dy, index, 2, -1, false)[0], expected));
  EXPECT_TRUE(same_bits(at::zeros({2, 3}).index_add(0, index, dy)[0], expected));
  EXPECT_TRUE(same_bits(at::zeros({2, 3}).scatter_add(0, index.unsqueeze(1).expand({1500, 3}), dy)[0], expected));
}

TEST(Indexing, InPlaceOutAndIntegers) {
  at::manual_seed(102);
  const Tensor x = at::randn({6, 4}), source = at::randn({3, 4}), index = at::tensor({5, 0, 5}, at::kLong);
  Tensor out = at::empty({0});
  const aten::OperatorSwitch on;
  const Tensor sum = x.index_add(0, index, source);
  EXPECT_TRUE(same_bits(x.clone().index_add_(0, index, source), sum));
  EXPECT_TRUE(same_bits(at::index_add_out(out, x, 0, index, source), sum));
  Tensor turned = x.t().contiguous().t();  // not row-major
  EXPECT_TRUE(same_bits(turned.index_add_(0, index, source), sum));
  EXPECT_TRUE(same_bits(x.clone().cumsum_(0), x.cumsum(0)));
  EXPECT_TRUE(same_bits(at::cumsum_out(out, x, 0), x.cumsum(0)));
  const Tensor numbers = at::arange(6);
  EXPECT_EQ(numbers.cumsum(0)[5].item<std::int64_t>(), 15);
  EXPECT_EQ(numbers.index_add(0, index, at::ones({3}, at::kLong))[5].item<std::int64_t>(), 7);
  EXPECT_TRUE(same_bits(numbers.cumsum(0, at::kFloat), numbers.to(at::kFloat).cumsum(0)));
}

TEST(Indexing, BadIndicesAreNamed) {
  const Tensor x = at::zeros({3, 2}), bad = at::tensor({0, 3}, at::kLong);
  const aten::OperatorSwitch on;
  expect_throws([&] { x.index_add(0, bad, x.narrow(0, 0, 2)); }, "index 3 is out of bounds for 3 rows");
  expect_throws([&] { at::embedding_dense_backward(x.narrow(0, 0, 2), bad, 3, -1, false); }, "index 3");
  expect_throws([&] { x.to(at::kComplexFloat).cumsum(0); }, "ComplexFloat");
}

}  // namespace
}  // namespace isobit::test
