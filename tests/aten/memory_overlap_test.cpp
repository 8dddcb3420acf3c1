// Elements on each other: decided as by comparing every address, and operators that write there.
#include "aten/memory_overlap.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "operator_cases.h"

namespace isobit::test {
namespace {

std::vector<const float*> places(const Tensor& t) {
  std::vector<const float*> all;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t rest = i, at = 0;
    for (std::int64_t d = t.dim(); d-- > 0;) at += rest % t.size(d) * t.stride(d), rest /= t.size(d);
    all.push_back(t.const_data_ptr<float>() + at);
  }
  return all;
}

TEST(MemoryOverlap, AsEveryAddressSays) {
  std::mt19937_64 random(17);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const Tensor memory = at::zeros({4096});
  std::int64_t apart = 0, own = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto rank = static_cast<std::size_t>(pick(1, 3));
    at::DimVector strides, sizes, others;
    for (std::size_t d = 0; d < rank; ++d)
      strides.push_back(pick(1, 3) == 1 ? pick(0, 40) : pick(1, 12)), sizes.push_back(pick(1, 5)),
          others.push_back(pick(1, 5));
    const Tensor a = memory.as_strided(sizes, strides, pick(0, 60));
    const Tensor b = memory.as_strided(pick(0, 1) == 0 ? sizes : others, strides, pick(0, 60));
    const std::vector<const float*> x = places(a), y = places(b);
    const std::set<const float*> in_a(x.begin(), x.end());
    const bool meet = std::any_of(y.begin(), y.end(), [&](const float* p) { return in_a.count(p) > 0; });
    const bool itself = in_a.size() < x.size();
    ASSERT_TRUE(!meet || aten::may_meet(a, b))
        << a.sizes() << a.strides() << b.sizes() << b.storage_offset() - a.storage_offset();
    ASSERT_TRUE(!itself || aten::may_overlap_itself(a)) << a.sizes() << a.strides();
    apart += !meet && !aten::may_meet(a, b), own += !itself && !aten::may_overlap_itself(a);
  }
  EXPECT_GT(apart, 2000);  // and not by saying "may" to all
  EXPECT_GT(own, 5000);
  const Tensor gates = at::zeros({7, 20});  // what programs do: halves of rows, rows, every second element
  EXPECT_FALSE(aten::may_meet(gates.narrow(1, 0, 10), gates.narrow(1, 10, 10)));
  EXPECT_FALSE(aten::may_meet(gates.slice(1, 0, 20, 2), gates.slice(1, 1, 20, 2)));
  EXPECT_FALSE(aten::may_overlap_itself(gates.narrow(1, 0, 10).t()));
  EXPECT_TRUE(aten::may_meet(gates.narrow(1, 0, 11), gates.narrow(1, 9, 11)));
  EXPECT_TRUE(aten::may_overlap_itself(gates.view({-1}).unfold(0, 3, 1)));
}

// The same bits whatever the number of threads: what is read is read before anything is written.
TEST(MemoryOverlap, WritesThatMeetWhatTheyRead) {
  using Write = std::function<void(const Tensor& x)>;
  const std::pair<const char*, Write> writes[] = {
      {"mul_", [](const Tensor& x) { x.mul_(x.t()); }},
      {"div_", [](const Tensor& x) { x.div_(x.t()); }},
      {"add_", [](const Tensor& x) { x.add_(x.t()); }},
      {"sub_", [](const Tensor& x) { x.sub_(x.t(), 0.5); }},
      {"copy_", [](const Tensor& x) { x.copy_(x.t()); }},
      {"lerp_", [](const Tensor& x) { x.lerp_(x.t(), 0.3); }},
      {"neg out",
       [](const Tensor& x) {
         Tensor y = x.t();
         at::neg_out(y, x);
       }},
      {"add out",
       [](const Tensor& x) {
         Tensor y = x.t();
         at::add_out(y, x, x, 1);
       }},
      {"where out",
       [](const Tensor& x) {
         Tensor y = x.t();
         at::where_out(y, x.gt(0), x, x.mul(2));
       }},
      {"exp out",
       [](const Tensor& x) {
         Tensor y = x.t();
         at::exp_out(y, x);
       }},
      {"another storage", [](const Tensor& x) {
         const Tensor again = at::from_blob(x.mutable_data_ptr(), x.sizes(), x.strides());
         x.add_(again.t());
         x.mul_(again.t());
         x.copy_(again.t());
         Tensor out = again.t();
         at::tanh_out(out, x);
         const Tensor row = x.as_strided({80000}, {1});
         const Tensor behind = at::from_blob(row.mutable_data_ptr<float>() + 3, {80000});
         behind.add_(row);
         behind.mul_(row);
         behind.copy_(row);
       }}};
  at::manual_seed(7);
  const Tensor given = at::randn({300, 301});
  for (const auto& [name, write] : writes) {
    for (const bool dense : {false, true}) {
      std::vector<Tensor> found;
      for (const int threads : {1, 2, 3}) {
        const kernels::ThreadCountScope scope(threads);
        const Tensor base = given.clone();
        const Tensor x = dense ? given.narrow(1, 0, 300).contiguous().clone() : base.narrow(1, 0, 300);
        const aten::OperatorSwitch on;
        try {
          write(x);
        } catch (const c10::Error& error) {  // PyTorch's own, where it sees the overlap
          EXPECT_TRUE(dense && std::string(error.what()).find("unsupported operation") != std::string::npos) << name;
        }
        found.push_back(x.contiguous());
      }
      EXPECT_TRUE(same_bits(found[0], found[1]) && same_bits(found[0], found[2])) << name << ", dense " << dense;
    }
  }
  const Tensor x = at::randn({40, 41}).narrow(1, 0, 40), expected = x.mul(x.t());
  const aten::OperatorSwitch on;
  EXPECT_TRUE(same_bits(x.mul_(x.t()), expected));
}

TEST(MemoryOverlap, ElementsOnEachOtherAreNotWritten) {
  const Tensor x = at::rand({1000});
  const aten::OperatorSwitch on;
  const auto windows = [&] { return x.unfold(0, 3, 1); };
  const Tensor values = at::rand({998, 3});
  for (const std::function<void()>& write : {std::function<void()>([&] { windows().copy_(values); }),
                                             {[&] { windows().add_(values); }},
                                             {[&] { windows().mul_(1.5); }},
                                             {[&] { windows().neg_(); }},
                                             {[&] { windows().normal_(); }},
                                             {[&] { windows().exp_(); }},
                                             {[&] { windows().index_add_(0, at::arange(998), values); }},
                                             {[&] { windows().cumsum_(1); }}})
    expect_throws(write, "whose elements lie on each other");
  windows().zero_();
  EXPECT_TRUE(x.eq(0).all().item<bool>());
}

}  // namespace
}  // namespace isobit::test
