// Sizes change speed only: products and convolutions keep their bits under every table, the extremes included.
#include "kernels/tuning.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "contract/philox.h"
#include "kernels/conv2d.h"
#include "kernels/fingerprint.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

using Floats = std::vector<float>;

Floats values(std::int64_t n, std::uint64_t key) {
  Floats x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(contract::random_word(key, i) >> 8) * 0x1p-24f - 0.5f;
  return x;
}

Fingerprint of(const Floats& x) { return element_sums(x.data(), 0, static_cast<std::int64_t>(x.size())); }

std::vector<Fingerprint> products() {
  std::vector<Fingerprint> found;
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{3, 200, 700}, {61, 130, 1300}, {257, 33, 40}, {200, 330, 2600}, {90, 64, 1100}}) {
    const Floats a = values(m * k, 1), b = values(k * n, 2);
    Floats c(static_cast<std::size_t>(m * n));
    MatmulProblem p;
    p.m = m, p.n = n, p.k = k;
    p.a.data = a.data(), p.a.row_stride = k, p.a.column_stride = 1;
    p.b.data = b.data(), p.b.row_stride = n, p.b.column_stride = 1;
    p.c = c.data(), p.c_row_stride = n;
    matmul(p);
    found.push_back(of(c));
  }
  return found;
}

std::vector<Fingerprint> convolutions() {
  std::vector<Fingerprint> found;
  for (const auto& [n, ci, size, co] : {std::array<std::int64_t, 4>{5, 3, 20, 17}, {18, 20, 7, 34}}) {
    Conv2dShape s;
    s.n = n, s.ci = ci, s.h = size, s.w = size, s.co = co, s.kh = 3, s.kw = 3, s.pad_h = 1, s.pad_w = 1;
    const Floats x = values(n * ci * size * size, 3), w = values(co * ci * 9, 4), dy = values(n * co * size * size, 5);
    Floats y(dy.size()), dx(x.size()), dw(w.size());
    conv2d_forward(s, x.data(), w.data(), nullptr, y.data());
    conv2d_input_gradient(s, dy.data(), w.data(), dx.data());
    conv2d_weight_gradient(s, x.data(), dy.data(), dw.data());
    for (const Floats* result : {&y, &dx, &dw}) found.push_back(of(*result));
  }
  return found;
}

class TuningTest : public testing::Test {
 protected:
  ~TuningTest() override { set_tuning({}); }
};

TEST_F(TuningTest, NoTableChangesABit) {
  std::vector<Tuning> tables;
  for (const TuningKey& key : tuning_keys()) {
    for (const std::int64_t value : {key.least, std::int64_t{7}, std::int64_t{777}, std::int64_t{1} << 15, key.most}) {
      Tuning table;
      table.*key.member = value;
      tables.push_back(table);
    }
  }
  tables.push_back({1, 1, 1, 1, 1, 1, 0});
  for (const Isa isa : available_isas()) {
    const IsaScope scope(isa);
    set_tuning({});
    const auto product = products(), convolution = convolutions();
    if (isa == Isa::reference) continue;  // has no sizes
    for (const int threads : {1, 3}) {
      const ThreadCountScope count(threads);
      for (std::size_t i = 0; i < tables.size(); ++i) {
        set_tuning(tables[i]);
        EXPECT_EQ(tuning(), tables[i]);
        EXPECT_EQ(products(), product) << name(isa) << ", table " << i;
        EXPECT_EQ(convolutions(), convolution) << name(isa) << ", table " << i;
      }
    }
  }
}

TEST_F(TuningTest, ValuesOutOfRangeAreRefusedWhole) {
  Tuning table;
  table.slab_floats = 4711;
  set_tuning(table);
  Tuning wrong;
  wrong.product_rows = 0;
  EXPECT_THROW(set_tuning(wrong), std::invalid_argument);
  EXPECT_EQ(tuning(), table);
}

}  // namespace
}  // namespace isobit::kernels
