// Additions and reductions by index in every form that a call may have: the index the same for whole rows or not, few
// rows of a large destination, in place or not, memory shared with the source. All give the contract's bits.
#include <cmath>
#include <numeric>
#include <random>

#include "contract/platform.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

struct Call {
  std::string name;
  Tensor self;
  std::int64_t dim;
  Tensor index, source;
};

float tree(const std::vector<float>& leaves, std::size_t first, std::size_t count) {
  if (count == 1) return leaves[first];
  std::size_t p = 1;
  while (2 * p < count) p *= 2;
  return tree(leaves, first, p) + tree(leaves, first + p, count - p);
}
float sum_of(const std::vector<float>& met) {
  std::vector<float> leaves;
  for (std::size_t i = 0; i < met.size(); ++i) {
    if (i % contract::kLeaf == 0) leaves.push_back(0.0f);
    leaves.back() += met[i];
  }
  return tree(leaves, 0, leaves.size());
}

// The contract's sentence for one destination that met something.
float reduced(const std::string& kind, float self, std::vector<float> met, bool include_self) {
  if (kind == "sum" || kind == "mean") {
    const float s = sum_of(met), total = include_self ? self + s : s;
    return kind == "sum" ? total : total / static_cast<float>(met.size() + (include_self ? 1 : 0));
  }
  if (include_self) met.insert(met.begin(), self);
  float t = kind == "prod" ? 1.0f : met[0];
  for (const float v : met) {
    if (kind == "prod") {
      t *= v;
    } else if (std::isnan(t) || std::isnan(v)) {
      t = NAN;
    } else {
      t = (kind == "amax" ? std::max(t, v) : std::min(t, v)) + 0.0f;
    }
  }
  return t;
}

// Element by element, in row-major order of the index.
Tensor plainly(const Call& c, const std::string& kind, bool include_self) {
  const Tensor result = c.self.contiguous().clone(), index = c.index.contiguous();
  const std::int64_t rank = index.dim();
  std::vector<std::vector<float>> met(static_cast<std::size_t>(result.numel()));
  Tensor cut = c.source;
  for (std::int64_t d = 0; d < rank; ++d) cut = cut.narrow(d, 0, index.size(d));
  cut = cut.contiguous();
  std::vector<std::int64_t> place(static_cast<std::size_t>(rank), 0);
  for (std::int64_t k = 0; k < index.numel(); ++k) {
    std::int64_t to = 0;
    for (std::int64_t d = 0; d < rank; ++d) {
      to += (d == c.dim ? index.const_data_ptr<std::int64_t>()[k] : place[static_cast<std::size_t>(d)]) *
            result.stride(d);
    }
    met[static_cast<std::size_t>(to)].push_back(cut.const_data_ptr<float>()[k]);
    for (std::int64_t d = rank - 1; d >= 0; --d) {
      if (++place[static_cast<std::size_t>(d)] < index.size(d)) break;
      place[static_cast<std::size_t>(d)] = 0;
    }
  }
  for (std::size_t i = 0; i < met.size(); ++i) {
    float& to = result.mutable_data_ptr<float>()[i];
    if (!met[i].empty()) to = reduced(kind, to, met[i], include_self);
  }
  return result;
}

Tensor wide(at::IntArrayRef sizes) {  // magnitudes over forty powers of two, zeros of both signs among them
  const Tensor x = at::randn(sizes).mul(at::randint(-20, 20, sizes).to(at::kFloat).exp2());
  return at::where(at::rand(sizes).lt(0.1), x.mul(0.0f), x);
}
Tensor indices(std::int64_t rows, at::IntArrayRef sizes) {  // half of them name row 0
  return at::randint(rows, sizes, at::kLong).mul(at::rand(sizes).lt(0.5).to(at::kLong));
}

std::vector<Call> calls() {
  const auto rows = [](std::int64_t n, std::int64_t count, std::int64_t width) {
    return indices(count, {n, 1}).expand({n, width});
  };
  std::vector<Call> all{
      {"an index for each element", wide({7, 5, 3}), 1, indices(5, {7, 9, 3}), wide({7, 9, 3})},
      {"the first dimension", wide({7, 5, 3}), 0, indices(7, {40, 5, 3}), wide({40, 5, 3})},
      {"the last dimension", wide({7, 5, 3}), 2, indices(3, {7, 5, 1200}), wide({7, 5, 1200})},
      {"smaller than source and self", wide({7, 5, 3}), 1, indices(5, {4, 6, 2}), wide({7, 9, 3})},
      {"rows", wide({6, 70}), 0, rows(50, 6, 70), wide({50, 70})},
      {"rows, many of one", wide({3, 17}), 0, rows(1500, 3, 17), wide({1500, 17})},
      {"rows of a larger source", wide({6, 8}), 0, rows(20, 6, 8), wide({30, 12})},
      {"part of the rows", wide({6, 8}), 0, rows(20, 6, 5), wide({20, 8})},
      {"rows in the middle", wide({4, 6, 9}), 1, indices(6, {4, 11, 1}).expand({4, 11, 9}), wide({4, 11, 9})},
      {"rows of two dimensions", wide({6, 4, 5}), 0, indices(6, {13, 1, 1}).expand({13, 4, 5}), wide({13, 4, 5})},
      {"the same for each of the first", wide({4, 6}), 1, indices(6, {1, 9}).expand({4, 9}), wide({4, 9})},
      {"few of many rows", wide({3000, 6}), 0, rows(25, 3000, 6), wide({25, 6})},
      {"few of many elements", wide({40, 300}), 1, indices(300, {40, 1}), wide({40, 1})},
      {"of one dimension", wide({9}), 0, indices(9, {700}), wide({700})},
      {"few of one dimension", wide({2000}), 0, indices(2000, {30}), wide({30})},
      {"a scalar", wide({}), 0, at::zeros({}, at::kLong), wide({})},
      {"width one", wide({6, 1}), 0, rows(20, 6, 1), wide({20, 1})},
      {"nothing", wide({6, 4}), 0, at::empty({0, 4}, at::kLong), wide({3, 4})},
      {"rows of nothing", wide({6, 0}), 0, rows(5, 6, 0), wide({5, 0})},
  };
  all.push_back({"a source that is expanded", wide({6, 8}), 0, rows(20, 6, 8), wide({20, 1}).expand({20, 8})});
  all.push_back({"a source that is turned", wide({6, 8}), 0, rows(20, 6, 8), wide({20, 8}).t().contiguous().t()});
  all.push_back({"elements for several threads", wide({500}), 0, indices(500, {140000}), wide({140000})});
  return all;
}

const char* const kKinds[] = {"sum", "mean", "prod", "amax", "amin"};

TEST(IndexedForms, GiveTheContractsBits) {
  at::manual_seed(107);
  for (const Call& c : calls()) {
    for (const int threads : {1, 3}) {
      const kernels::ThreadCountScope scope(threads);
      const aten::OperatorSwitch on;
      const Tensor expected = plainly(c, "sum", true);
      EXPECT_TRUE(same_bits(c.self.scatter_add(c.dim, c.index, c.source), expected)) << c.name;
      EXPECT_TRUE(same_bits(c.self.clone().scatter_add_(c.dim, c.index, c.source), expected)) << c.name << ", in place";
      Tensor elsewhere = scattered(c.self), source = scattered(c.source);
      EXPECT_TRUE(same_bits(elsewhere.scatter_add_(c.dim, c.index, source), expected)) << c.name << ", not row-major";
      EXPECT_TRUE(same_bits(c.self.scatter_add(c.dim, c.index.contiguous(), c.source), expected))
          << c.name << ", whole";
      for (const char* kind : kKinds) {
        for (const bool include_self : {true, false}) {
          const Tensor wanted = plainly(c, kind, include_self);
          const auto reduce = [&](Tensor self) {
            return self.scatter_reduce_(c.dim, c.index, c.source, kind, include_self);
          };
          EXPECT_TRUE(same_bits(c.self.scatter_reduce(c.dim, c.index, c.source, kind, include_self), wanted))
              << c.name << ", " << kind << include_self;
          EXPECT_TRUE(same_bits(reduce(c.self.clone()), wanted)) << c.name << ", in place, " << kind << include_self;
          EXPECT_TRUE(same_bits(reduce(scattered(c.self)), wanted)) << c.name << ", not row-major, " << kind;
        }
      }
    }
  }
}

#ifdef ISOBIT_FAKE_CUDA
TEST(IndexedForms, OnADeviceGiveTheSame) {
  if (!kFakeCuda) GTEST_SKIP();
  at::manual_seed(110);
  for (const Call& c : calls()) {
    const aten::OperatorSwitch on;
    const at::Device device(at::kCUDA, 0);
    const Tensor self = c.self.to(device), index = c.index.to(device), source = c.source.to(device);
    const Tensor expected = plainly(c, "sum", true);
    EXPECT_TRUE(same_bits(self.scatter_add(c.dim, index, source).cpu(), expected)) << c.name;
    EXPECT_TRUE(same_bits(self.clone().scatter_add_(c.dim, index, source).cpu(), expected)) << c.name << ", in place";
    for (const char* kind : kKinds) {
      EXPECT_TRUE(
          same_bits(self.clone().scatter_reduce_(c.dim, index, source, kind, false).cpu(), plainly(c, kind, false)))
          << c.name << ", " << kind;
    }
  }
}
#endif

// One index for each row: scatter, index_add, index_put and index_reduce are the same sums.
TEST(IndexedForms, OfRowsAgree) {
  at::manual_seed(108);
  for (const auto& [rows, n, width] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{6, 1400, 33}, {5000, 20, 7}, {9, 40, 1}}) {
    const Tensor self = wide({rows, width}), source = wide({n, width}), index = indices(rows, {n});
    const aten::OperatorSwitch on;
    const Call c{"", self, 0, index.unsqueeze(1).expand({n, width}), source};
    const Tensor expected = plainly(c, "sum", true);
    EXPECT_TRUE(same_bits(self.index_add(0, index, source), expected));
    EXPECT_TRUE(same_bits(self.clone().index_add_(0, index, source), expected));
    EXPECT_TRUE(same_bits(self.index_put({index}, source, true), expected));
    EXPECT_TRUE(same_bits(self.clone().index_put_({index.sub(rows)}, source, true), expected));
    EXPECT_TRUE(same_bits(scattered(self).index_put_({index}, source, true), expected));
    EXPECT_TRUE(same_bits(scattered(self).index_add_(0, index, source), expected));
    for (const char* kind : {"mean", "prod", "amax", "amin"}) {
      const Tensor wanted = plainly(c, kind, false);
      EXPECT_TRUE(same_bits(self.index_reduce(0, index, source, kind, false), wanted)) << kind;
      EXPECT_TRUE(same_bits(self.clone().index_reduce_(0, index, source, kind, false), wanted)) << kind;
    }
  }
}

// What is read may be what is written: the values from before count.
TEST(IndexedForms, TheSourceMayBeTheDestination) {
  at::manual_seed(109);
  const Tensor x = wide({12, 5}), index = indices(6, {6});
  const Tensor each = index.unsqueeze(1).expand({6, 5});
  const aten::OperatorSwitch on;
  const Tensor expected = x.scatter_add(0, each, x.narrow(0, 0, 6).clone());
  Tensor y = x.clone();
  EXPECT_TRUE(same_bits(y.scatter_add_(0, each, y.narrow(0, 0, 6)), expected));
  y = x.clone();
  EXPECT_TRUE(same_bits(y.index_add_(0, index, y.narrow(0, 0, 6)), expected));
  y = x.clone();
  EXPECT_TRUE(same_bits(y.index_put_({index}, y.narrow(0, 0, 6), true), expected));
  y = x.clone();
  EXPECT_TRUE(same_bits(y.scatter_reduce_(0, each, y.narrow(0, 0, 6), "sum"), expected));
  y = x.clone();
  EXPECT_TRUE(same_bits(y.narrow(0, 0, 6).scatter_add_(0, each, y.narrow(0, 6, 6)),
                        x.narrow(0, 0, 6).scatter_add(0, each, x.narrow(0, 6, 6))));
}

// A call that is refused has written nothing.
TEST(IndexedForms, BadIndicesLeaveTheDestinationAlone) {
  const Tensor x = wide({3, 4}), before = x.clone(), bad = at::tensor({0, 3}, at::kLong), source = wide({2, 4});
  const Tensor each = bad.unsqueeze(1).expand({2, 4}), few = wide({400, 4}), kept = few.clone();
  const aten::OperatorSwitch on;
  Tensor y = x;
  expect_throws([&] { y.index_add_(0, bad, source); }, "index 3 is out of bounds for 3 rows");
  expect_throws([&] { y.scatter_add_(0, each, source); }, "index 3 is out of bounds for 3 rows");
  expect_throws([&] { y.scatter_add_(0, each.sub(4), source); }, "index -4");
  expect_throws([&] { y.scatter_reduce_(0, each, source, "mean"); }, "index 3");
  expect_throws([&] { y.index_reduce_(0, bad, source, "mean"); }, "index 3");
  expect_throws([&] { y.index_put_({bad}, source, true); }, "out of bounds");
  expect_throws([&] { y.index_put_({bad.sub(4)}, source, true); }, "out of bounds");
  // A source of another shape would be read where it is not.
  expect_throws([&] { y.index_add_(0, bad.clamp_max(2), at::ones({})); }, "source has sizes [] where [2, 4]");
  expect_throws([&] { y.index_add(0, bad.clamp_max(2), at::ones({4, 2})); }, "source has sizes [4, 2] where [2, 4]");
  expect_throws([&] { y.index_add(0, bad.clamp_max(2), at::ones({1, 4})); }, "source has sizes [1, 4] where [2, 4]");
  EXPECT_EQ(at::zeros({3}).index_add(0, at::ones({1}, at::kLong), at::ones({}))[1].item<float>(), 1.0f);
  EXPECT_EQ(at::zeros({}).index_add(0, at::zeros({1}, at::kLong), at::ones({1})).item<float>(), 1.0f);
  EXPECT_TRUE(same_bits(x, before));
  Tensor large = few;
  expect_throws([&] { large.scatter_add_(0, each.mul(200), source); }, "index 600 is out of bounds for 400 rows");
  EXPECT_TRUE(same_bits(few, kept));
}

}  // namespace
}  // namespace isobit::test
