// Kernels on binary64, which every instruction set shares: their bits on other machines and compilers.
#include <bit>

#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/activation.h"
#include "kernels/batch_norm.h"
#include "kernels/group_norm.h"
#include "kernels/indexed.h"
#include "kernels/loss.h"
#include "kernels/matmul.h"
#include "kernels/pointwise.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/scan.h"
#include "kernels/softmax.h"
#include "kernels/sort.h"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;
using Doubles = std::vector<double>;

Doubles uniform64(std::uint64_t key, std::int64_t n, double low = -1.0, double high = 1.0) {
  Doubles values(static_cast<std::size_t>(n));
  kernels::fill_uniform(key, 0, low, high, values.data(), n);
  return values;
}
// Magnitudes over 2^-40 .. 2^40; `wild`: zeros of both signs, subnormals, NaN and infinities among them.
Doubles hostile64(std::uint64_t key, std::int64_t n, bool wild) {
  constexpr std::uint64_t kWild[] = {0, 1ull << 63, 1, 0x7ff0ull << 48, 0xfff0ull << 48, 0x7ff8ull << 48};
  Doubles values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const contract::PhiloxBlock b = contract::random_block(key, i);
    const std::uint64_t bits = static_cast<std::uint64_t>(b.word[1]) << 32 | b.word[0];
    const std::uint64_t exponent = 983 + b.word[2] % 81;
    values[i] = std::bit_cast<double>((bits & 0x800fffffffffffffull) | exponent << 52);
    if (wild && b.word[3] % 16 == 0) values[i] = std::bit_cast<double>(kWild[b.word[3] / 16 % 6]);
  }
  return values;
}

// The patterns as int64, NaN canonical.
Digest& add(Digest& digest, const Doubles& x) {
  std::vector<std::int64_t> bits;
  for (const double v : x) bits.push_back(std::bit_cast<std::int64_t>(v != v ? __builtin_nan("") : v));
  return digest.add(bits);
}

Fingerprint reductions(std::int64_t a, std::int64_t b, std::int64_t c, bool wild) {
  kernels::ReduceShape s;  // over the middle of [a, b, c]
  s.kept_rank = 2, s.reduced_rank = 1;
  s.kept_size[0] = a, s.kept_stride[0] = b * c, s.kept_size[1] = c, s.kept_stride[1] = 1;
  s.reduced_size[0] = b, s.reduced_stride[0] = c;
  const Doubles x = hostile64(601, a * b * c, wild);
  Digest digest;
  using Kernel = void (*)(const kernels::ReduceShape&, const double*, double*);
  for (const Kernel kernel :
       std::initializer_list<Kernel>{kernels::sum, kernels::mean, kernels::norm2, kernels::maximum, kernels::minimum}) {
    Doubles out(static_cast<std::size_t>(a * c));
    kernel(s, x.data(), out.data());
    add(digest, out);
  }
  std::vector<std::int64_t> index(static_cast<std::size_t>(a * c));
  kernels::argmax(s, x.data(), index.data());
  Doubles y(x.size()), values(x.size());
  std::vector<std::int64_t> places(x.size());
  kernels::product(a, b, c, x.data(), y.data());
  y.resize(static_cast<std::size_t>(a * c));
  add(digest.add(index), y);
  kernels::running_extremum(true, a, b, c, x.data(), values.data(), places.data());
  add(digest, values).add(places);
  for (const auto op : {kernels::Cumulative::sum, kernels::Cumulative::product}) {
    kernels::cumulative(op, a, b, c, x.data(), values.data());
    add(digest, values);
  }
  kernels::sort_rows(false, a * b, c, x.data(), values.data(), places.data());
  return add(digest, values).add(places).result();
}

Fingerprint products(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Doubles a = hostile64(611, m * k, false), b = hostile64(612, k * n, false), d = uniform64(613, n);
  Doubles c(static_cast<std::size_t>(m * n));
  kernels::WideMatmulProblem p;
  p.m = m, p.n = n, p.k = k;
  p.a = {a.data(), 0, k, 1}, p.b = {b.data(), 0, n, 1}, p.addend = {d.data(), 0, 0, 1};
  p.alpha = 0.3, p.beta = -1.7;
  p.c = c.data(), p.c_row_stride = n;
  kernels::matmul(p);
  Digest digest;
  return add(digest, c).result();
}

Fingerprint functions() {
  const std::int64_t n = 700;
  const Doubles wide = hostile64(621, n, true), near = uniform64(622, n, -9.0, 9.0),
                other = uniform64(623, n, -2.0, 2.0);
  Digest digest;
  Doubles y(static_cast<std::size_t>(n));
  const auto each = [&](auto run) {
    for (const Doubles* x : {&wide, &near}) {
      run(x->data(), y.data());
      add(digest, y);
    }
  };
  using kernels::Binary, kernels::Unary;
  for (const Unary op : kernels::kAllUnary) each([&](const double* x, double* to) { kernels::unary(op, x, to, n); });
  for (const Binary op : kernels::kAllBinary) {
    each([&](const double* x, double* to) { kernels::binary(op, other.data(), x, to, n); });
  }
  const kernels::ParametersOf<double> parameters{1.1, 0.7, 0.9};
  for (const auto op : kernels::kAllUnaryWith) {
    each([&](const double* x, double* to) { kernels::unary_with(op, parameters, x, to, n); });
  }
  for (const auto op : kernels::kAllBinaryWith) {
    each([&](const double* x, double* to) { kernels::binary_with(op, parameters, other.data(), x, to, n); });
  }
  for (const auto op : kernels::kAllTernaryWith) {
    each([&](const double* x, double* to) {
      kernels::ternary_with(op, parameters, other.data(), x, near.data(), to, n);
    });
  }
  return digest.result();
}

Fingerprint with_scalars() {
  const std::int64_t n = 300;
  const Doubles a = hostile64(631, n, true), b = uniform64(632, n, -3.0, 3.0), c = uniform64(633, n, 0.5, 4.0);
  Digest digest;
  Doubles y(static_cast<std::size_t>(n));
  const auto each = [&](auto run) {
    run(y.data());
    add(digest, y);
  };
  each([&](double* to) { kernels::add_scaled(a.data(), b.data(), 0.3, to, n); });
  each([&](double* to) { kernels::addcmul(a.data(), b.data(), c.data(), 0.3, to, n); });
  each([&](double* to) { kernels::addcdiv(a.data(), b.data(), c.data(), 0.3, to, n); });
  for (const double w : {0.3, 0.7}) each([&](double* to) { kernels::lerp(a.data(), b.data(), w, to, n); });
  each([&](double* to) { (void)kernels::power(b.data(), -2.5, to, n); });
  each([&](double* to) { kernels::general_power(c.data(), b.data(), to, n); });
  each([&](double* to) { kernels::general_power(c.data(), 0.3, to, n); });
  each([&](double* to) { kernels::clamp(a.data(), -0.1, 0.7, to, n); });
  each([&](double* to) { kernels::hardtanh_backward(a.data(), b.data(), -0.1, 0.7, to, n); });
  each([&](double* to) { kernels::leaky_relu(a.data(), 0.1, to, n); });
  each([&](double* to) { kernels::leaky_relu_backward(a.data(), b.data(), 0.1, to, n); });
  each([&](double* to) { kernels::fill_uniform(9, 3, -0.1, 0.7, to, n); });
  each([&](double* to) { kernels::fill_normal(9, 2, 0.1, 0.7, to, n); });
  return digest.result();
}

Fingerprint rows(std::int64_t n, std::int64_t classes) {
  const Doubles x = hostile64(641, n * classes, false), dy = uniform64(642, n * classes);
  const kernels::SoftmaxShape s{n, classes, 1};
  Digest digest;
  Doubles y(x.size()), dx(x.size());
  kernels::softmax(s, dy.data(), y.data());
  kernels::softmax_backward(s, x.data(), y.data(), dx.data());
  add(add(digest, y), dx);
  kernels::log_softmax(s, x.data(), y.data());
  kernels::log_softmax_backward(s, dy.data(), y.data(), dx.data());
  add(add(digest, y), dx);
  const std::vector<std::int64_t> target = integers(643, n, static_cast<std::uint32_t>(classes));
  const Doubles weight = uniform64(644, classes, 0.5, 2.0);
  kernels::NllShape nll;
  nll.n = n, nll.classes = classes;
  Doubles loss(1), total(1);
  (void)kernels::nll_forward(nll, x.data(), target.data(), weight.data(), loss.data(), total.data());
  (void)kernels::nll_backward(nll, loss.data(), target.data(), weight.data(), total.data(), dx.data());
  add(add(add(digest, loss), total), dx);
  // Rows of target, added and reduced.
  std::vector<std::int64_t> begin{0, 1, 1, n}, order;
  for (std::int64_t i = 0; i < n; ++i) order.push_back(i);
  const kernels::Occurrences occurrences{3, begin.data(), order.data()};
  Doubles to = uniform64(645, 3 * classes);
  kernels::indexed_add(occurrences, 1, n, classes, 0.3, x.data(), to.data());
  add(digest, to);
  for (const auto op :
       {kernels::IndexReduction::sum, kernels::IndexReduction::mean, kernels::IndexReduction::product}) {
    kernels::indexed_reduce(op, occurrences, 1, true, x.data(), to.data());
    add(digest, to);
  }
  return digest.result();
}

Fingerprint normalization(bool groups) {
  const std::int64_t n = 5, c = 6, inner = 131;
  const Doubles x = uniform64(651, n * c * inner, -3.0, 5.0), dy = uniform64(652, n * c * inner), w = uniform64(653, c);
  Doubles y(x.size()), dx(x.size()), mean(10), invstd(10), dw(6), db(6), rm(6, 0.5), rv(6, 0.7);
  Digest digest;
  if (groups) {
    const kernels::GroupShape shape{n, c, inner, 2};
    kernels::group_norm(kernels::GroupNormForwardOf<double>{shape, x.data(), w.data(), nullptr, y.data(), mean.data(),
                                                            invstd.data(), 1e-5});
    kernels::group_norm_backward(kernels::GroupNormBackwardOf<double>{shape, x.data(), dy.data(), w.data(), mean.data(),
                                                                      invstd.data(), dx.data(), dw.data(), db.data()});
  } else {
    mean.resize(6), invstd.resize(6);
    const kernels::ChannelShape shape{n, c, inner};
    const kernels::BatchNormForwardOf<double> forward{
        shape, x.data(), w.data(), nullptr, rm.data(), rv.data(), y.data(), mean.data(), invstd.data(), 0.1, 1e-5};
    kernels::batch_norm_training(forward);
    kernels::batch_norm_backward(
        {shape, true, x.data(), dy.data(), w.data(), mean.data(), invstd.data(), dx.data(), dw.data(), db.data()});
    add(digest, y);
    kernels::batch_norm_inference(forward);
    Doubles m2(6);
    kernels::batch_moments(shape, x.data(), rm.data(), m2.data());
    kernels::invstd_of(m2.data(), 1e-5, rv.data(), c);
    add(add(add(digest, m2), rm), rv);
  }
  return add(add(add(add(add(add(digest, y), dx), mean), invstd), dw), db).result();
}

}  // namespace

void add_binary64_cases(std::vector<Case>& cases) {
  cases.push_back({"binary64.reductions", [] { return reductions(3, 1400, 5, false); }, true});
  cases.push_back({"binary64.reductions_wild", [] { return reductions(2, 600, 3, true); }, true});
  cases.push_back({"binary64.products", [] { return products(70, 65, 1100); }, true});
  cases.push_back({"binary64.functions", [] { return functions(); }, true});
  cases.push_back({"binary64.with_scalars", [] { return with_scalars(); }, true});
  cases.push_back({"binary64.rows", [] { return rows(600, 7); }, true});
  cases.push_back({"binary64.batch_norm", [] { return normalization(false); }, true});
  cases.push_back({"binary64.group_norm", [] { return normalization(true); }, true});
}

}  // namespace isobit::golden
