// Products, running extrema and reductions by index on cuda:0: every overload, hostile values, integers, duplicates,
// errors.
#include <ATen/ATen.h>

#include "aten/fake_cuda.h"
#include "aten/operator_cases.h"
#include "hostile_samples.h"

namespace isobit::test {
namespace {

const at::Device kDevice(at::kCUDA, 0);

using Call = std::function<Tensors(const Tensors&)>;
struct Named {
  const char* name;
  Call call;
};

void expect_same(const Named& named, const Tensors& inputs) {
  SCOPED_TRACE(named.name);
  Tensors copies, there;
  for (const Tensor& t : inputs) copies.push_back(t.clone()), there.push_back(t.clone().to(kDevice));
  const Tensors expected = named.call(copies), found = named.call(there);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].device(), kDevice) << i;
    EXPECT_EQ(found[i].scalar_type(), expected[i].scalar_type()) << i;
    EXPECT_TRUE(same_bits(found[i].cpu(), expected[i])) << i;
  }
}
Tensor none(const Tensor& like) { return at::empty({0}, like.options()); }
Tensor no_places(const Tensor& like) { return at::empty({0}, like.options().dtype(at::kLong)); }

TEST(DeviceReductions, ProductsAndRunningValues) {
  if (!fake_cuda()) GTEST_SKIP();
  const Named anything[] = {
      {"prod",
       [](const Tensors& t) {
         return Tensors{at::prod(t[0]), at::prod(t[0], 1), at::prod(t[0], 0, true)};
       }},
      {"prod to a type", [](const Tensors& t) { return Tensors{at::prod(t[0], 1, false, at::kFloat)}; }},
      {"prod of none",
       [](const Tensors& t) {
         return Tensors{at::prod(t[0].narrow(1, 0, 0), 1), at::prod(t[0].narrow(1, 0, 0))};
       }},
      {"prod of a number", [](const Tensors& t) { return Tensors{at::prod(t[0][0][0], 0)}; }},
      {"cummax",
       [](const Tensors& t) {
         const auto [values, places] = at::cummax(t[0], 1);
         Tensor v = none(t[0]), p = no_places(t[0]);
         at::cummin_out(v, p, t[0], 0);
         const auto [number, place] = at::cummax(t[0][0][0], 0);
         return Tensors{values, places, v, p, number, place};
       }},
  };
  const Named floats[] = {
      {"prod out",
       [](const Tensors& t) {
         Tensor out = none(t[0]);
         return Tensors{at::prod_out(out, t[0], 1)};
       }},
      {"logcumsumexp",
       [](const Tensors& t) {
         Tensor out = none(t[0]);
         return Tensors{at::logcumsumexp(t[0], 1), at::_logcumsumexp_out(out, t[0], 0),
                        at::logcumsumexp(t[0][0][0], 0)};
       }},
      {"renorm",
       [](const Tensors& t) {
         Tensor same = t[0].clone(), out = none(t[0]);
         return Tensors{at::renorm(t[0], 2, 0, 0.5), at::renorm_out(out, t[0], 1.5, 1, 3.0), same.renorm_(1, 0, 2.0)};
       }},
  };
  const Tensor wild = hostile_tensor({5, 41}, at::kFloat, 3), tame = at::rand({3, 1300}) * 0.1 + 0.95;
  const Tensor integers = at::arange(-20, 21).remainder(5).view({1, 41}).repeat({5, 1});
  const aten::OperatorSwitch on;
  for (const Named& named : anything) {
    for (const Tensor& t : {wild, tame, integers, scattered(tame)}) expect_same(named, {t});
  }
  for (const Named& named : floats) {
    for (const Tensor& t : {wild, tame, scattered(tame)}) expect_same(named, {t});
  }
}

TEST(DeviceReductions, ByIndex) {
  if (!fake_cuda()) GTEST_SKIP();
  // t: self [6, 9], index [6, 40] and [40] along dimension 1, source [6, 40].
  std::vector<Named> calls;
  for (const char* kind : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      calls.push_back({kind, [=](const Tensors& t) {
                         Tensor same = t[0].clone(), out = none(t[0]);
                         return Tensors{
                             at::scatter_reduce(t[0], 1, t[1], t[3], kind, include_self),
                             at::scatter_reduce_out(out, t[0], 1, t[1].narrow(0, 0, 4), t[3], kind, include_self),
                             same.scatter_reduce_(-1, t[1], t[3], kind, include_self)};
                       }});
      if (std::string(kind) == "sum") continue;
      calls.push_back({kind, [=](const Tensors& t) {
                         Tensor same = t[0].clone(), out = none(t[0]);
                         return Tensors{at::index_reduce(t[0], 1, t[2], t[3], kind, include_self),
                                        at::index_reduce_out(out, t[0], 1, t[2], t[3], kind, include_self),
                                        same.index_reduce_(-1, t[2], t[3], kind, include_self)};
                       }});
    }
  }
  for (const bool accumulate : {false, true}) {
    calls.push_back({"put", [=](const Tensors& t) {
                       Tensor same = t[0].clone();
                       return Tensors{at::put(t[0], t[2].sub(3), t[3][0], accumulate),
                                      same.put_(t[2], t[3][1], accumulate),
                                      at::put(t[0], t[2].narrow(0, 0, 0), t[3][0].narrow(0, 0, 0), accumulate)};
                     }});
  }
  at::manual_seed(41);
  const Tensor index = at::randint(0, 9, {6, 40}, at::kLong), row = at::randint(0, 9, {40}, at::kLong);
  const aten::OperatorSwitch on;
  for (const Named& named : calls) {
    expect_same(named, {hostile_tensor({6, 9}, at::kFloat, 4), index, row, hostile_tensor({6, 40}, at::kFloat, 5)});
    expect_same(named, {at::rand({6, 9}) + 0.5, index, row, at::rand({6, 40}) + 0.5});
    expect_same(named, {at::arange(54).view({6, 9}), index, row, at::arange(240).remainder(7).add(1).view({6, 40})});
  }
  const Tensor x = at::rand({6, 9}).to(kDevice);
  expect_throws([&] { at::put(x, at::full({1}, 54, at::kLong).to(kDevice), x.flatten().narrow(0, 0, 1)); },
                "out of bounds");
  expect_throws([&] { at::scatter_reduce(x, 1, index.add(9).to(kDevice), x.repeat({1, 5}), "sum"); }, "out of bounds");
}

}  // namespace
}  // namespace isobit::test
