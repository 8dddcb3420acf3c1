// Values by rank, lerp with weights, distances: values and gradients, ties, NaN.
#include "operator_cases.h"

namespace isobit::test {
namespace {

TEST(Selection, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(500);
  const Tensor x = at::randn({4, 5, 33});
  const Case everywhere[] = {
      {"the largest", {x}, [](const Tensors& t) { return std::get<0>(at::topk(t[0], 7)); }},
      {"the smallest along another dimension",
       {x},
       [](const Tensors& t) { return std::get<0>(at::topk(t[0], 2, 1, false)); }},
      {"none of them", {x}, [](const Tensors& t) { return std::get<0>(at::topk(t[0], 0)); }},
      {"of a number", {at::randn({})}, [](const Tensors& t) { return std::get<0>(at::topk(t[0], 1, 0)); }},
      {"kth", {x}, [](const Tensors& t) { return std::get<0>(at::kthvalue(t[0], 5, 1)); }},
      {"median", {x}, [](const Tensors& t) { return std::get<0>(at::median(t[0], 2, true)); }},
      {"median of all", {x}, [](const Tensors& t) { return at::median(t[0]); }},
      {"median of all but NaN",
       {at::where(x.gt(1), std::numeric_limits<float>::quiet_NaN(), x)},
       [](const Tensors& t) { return at::nanmedian(t[0]).mul(2); }},
      {"quantiles", {x}, [](const Tensors& t) { return at::quantile(t[0], 0.37, 1); }},
      {"sorted", {x}, [](const Tensors& t) { return std::get<0>(at::sort(t[0], 1, true)); }},
      {"sorted rows",
       {at::randperm(7500).to(at::kFloat).view({3, 2500})},
       [](const Tensors& t) { return std::get<0>(at::sort(t[0])); }},
      {"median of those that are not NaN", {x}, [](const Tensors& t) { return std::get<0>(at::nanmedian(t[0], 0)); }},
      {"lerp", {x, at::randn({5, 1}), at::rand({33})}, [](const Tensors& t) { return at::lerp(t[0], t[1], t[2]); }},
      {"distances",
       {at::randn({2, 5, 7}), at::randn({2, 6, 7})},
       [](const Tensors& t) { return at::cdist(t[0], t[1], 2.0, 2); }},
      {"sums", {at::randn({5, 7}), at::randn({30, 7})}, [](const Tensors& t) { return at::cdist(t[0], t[1], 1.0); }},
      {"by a product, as PyTorch chooses for many rows",
       {at::randn({30, 8}), at::randn({40, 8})},
       [](const Tensors& t) { return at::cdist(t[0], t[1]); },
       1e-4},
      {"of broadcast batches",
       {at::randn({4, 1, 5, 3}), at::randn({2, 6, 3})},
       [](const Tensors& t) { return at::cdist(t[0], t[1]); }},
      {"of no batches",
       {at::randn({5, 3}), at::randn({0, 6, 3})},
       [](const Tensors& t) { return at::cdist(t[0], t[1]); }},
      {"largest",
       {at::randn({5, 7}), at::randn({6, 7})},
       [](const Tensors& t) { return at::cdist(t[0], t[1], std::numeric_limits<double>::infinity()); }},
      {"pairs", {at::randn({9, 4})}, [](const Tensors& t) { return at::pdist(t[0]); }},
  };
  for (const Case& c : everywhere) check(c);
}

Tensor with_ties() {
  at::manual_seed(501);
  Tensor x = at::randint(-3, 4, {6, 40}).to(at::kFloat).div(2);
  x[1][7] = x[1][9] = x[2][0] = std::numeric_limits<float>::quiet_NaN();
  x[3][5] = -0.0f;
  return x;
}

TEST(Selection, HasTheRanksOfAStableSort) {
  const Tensor x = with_ties();
  const aten::OperatorSwitch on;
  for (const bool largest : {true, false}) {
    const auto [values, indices] = at::sort(x, /*stable=*/true, 1, largest);
    const auto [top, places] = at::topk(x, 23, 1, largest);
    EXPECT_TRUE(same_bits(top, values.narrow(1, 0, 23)));
    EXPECT_TRUE(same_bits(places, indices.narrow(1, 0, 23).contiguous()));
  }
  const auto [values, indices] = at::sort(x, /*stable=*/true, 1, false);
  const auto [kth, place] = at::kthvalue(x, 12, 1);
  EXPECT_TRUE(same_bits(kth, values.select(1, 11)));
  EXPECT_TRUE(same_bits(place, indices.select(1, 11).contiguous()));
  const auto [middle, where] = at::median(x, 1);
  EXPECT_TRUE(middle[1].isnan().item<bool>());
  EXPECT_EQ(where[1].item<std::int64_t>(), 7);
  EXPECT_TRUE(same_bits(middle[0], values[0][19]));
  EXPECT_FALSE(std::get<0>(at::nanmedian(x, 1))[2].isnan().item<bool>());
}

TEST(Selection, LerpHasTheBitsOfItsScalarForm) {
  const Tensor a = at::randn({50}), b = at::randn({50});
  const aten::OperatorSwitch on;
  for (const double w : {-0.3, 0.25, 0.5, 0.8}) {
    EXPECT_TRUE(same_bits(at::lerp(a, b, at::full({50}, w)), at::lerp(a, b, w)));
  }
}

#ifdef ISOBIT_FAKE_CUDA
// Values and places, integers too, on the CPU and on cuda:0.
TEST(Selection, RanksOnADeviceAreTheCpus) {
  if (!kFakeCuda) GTEST_SKIP();
  const at::Device device(at::kCUDA, 0);
  using Pair = std::tuple<Tensor, Tensor>;
  const std::function<Pair(const Tensor&)> both[] = {
      [](const Tensor& t) { return at::sort(t, 1, false); },
      [](const Tensor& t) { return at::sort(t, /*stable=*/true, 0, true); },
      [](const Tensor& t) { return at::topk(t, 7, 1, true); },
      [](const Tensor& t) { return at::topk(t, 2, 0, false); },
      [](const Tensor& t) { return at::cummax(t, 1); },
      [](const Tensor& t) { return at::cummin(t, 0); },
      [](const Tensor& t) { return Pair(at::argsort(t, 1, false), at::msort(t)); },
  };
  const std::function<Pair(const Tensor&)> floats[] = {
      [](const Tensor& t) { return at::kthvalue(t, 12, 1, true); },
      [](const Tensor& t) { return at::median(t, 1); },
      [](const Tensor& t) { return at::median(t, 0, true); },
      [](const Tensor& t) { return at::nanmedian(t, 1); },
      [](const Tensor& t) { return Pair(at::median(t), at::nanmedian(t)); },
      [](const Tensor& t) { return at::median(t[0][0], 0); },
      [](const Tensor& t) { return at::sort(t[0][0], 0); },
      [](const Tensor& t) { return at::sort(t.narrow(1, 0, 0), 1); },
      [](const Tensor& t) { return Pair(at::median(t.narrow(0, 0, 0)), t); },
      [](const Tensor& t) {
        Tensor values = at::empty({0}, t.options()), places = at::empty({0}, t.options().dtype(at::kLong));
        at::sort_out(values, places, t, /*stable=*/true, 1, true);
        return Pair(values, places);
      },
  };
  const Tensor x = with_ties(), integers = at::randint(-9, 9, {6, 40}, at::kLong);
  const aten::OperatorSwitch on;
  const auto expect_same = [&](const auto& call, const Tensor& t) {
    const auto [values, places] = call(t);
    const auto [values_there, places_there] = call(t.to(device));
    EXPECT_TRUE(values_there.is_cuda() && places_there.is_cuda());
    EXPECT_TRUE(same_bits(values_there.cpu(), values));
    EXPECT_TRUE(same_bits(places_there.cpu(), places));
  };
  (void)take_stock_calls();
  for (std::size_t i = 0; i < std::size(floats); ++i) {
    SCOPED_TRACE(i);
    for (const Tensor& t : {x, scattered(x)}) expect_same(floats[i], t);
  }
  for (std::size_t i = 0; i < std::size(both); ++i) {
    SCOPED_TRACE(i);
    for (const Tensor& t : {x, scattered(x), integers}) expect_same(both[i], t);
  }
  expect_exact_stock_calls();
}
#endif

TEST(Selection, Refuses) {
  const Tensor x = at::ones({3, 4});
  const aten::OperatorSwitch on;
  expect_throws([&] { at::cdist(x.to(at::kComplexFloat), x.to(at::kComplexFloat), 3.0); }, "ComplexFloat");
  expect_throws([&] { at::topk(x, 5); }, "k must be");
  expect_throws([&] { at::topk(x.to(at::kComplexFloat), 2); }, "ComplexFloat");
}

}  // namespace
}  // namespace isobit::test
