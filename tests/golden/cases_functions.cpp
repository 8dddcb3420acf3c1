#include <algorithm>
#include <array>

#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/elementwise.h"
#include "kernels/flat_elements.h"
#include "kernels/pointwise.h"
#include "kernels/random.h"
#include "kernels/softmax.h"

namespace isobit::golden {
namespace {

using kernels::Binary;
using kernels::Fingerprint;
using kernels::Unary;

constexpr std::int64_t kCount = 10007;

// Small, ordinary and hostile arguments.
Floats arguments(std::uint64_t key) {
  Floats x = uniform(key, kCount, -1.0f, 1.0f);
  const Floats middle = uniform(key + 1, kCount, -20.0f, 20.0f), wild = hostile(key + 2, kCount, true);
  x.insert(x.end(), middle.begin(), middle.end());
  x.insert(x.end(), wild.begin(), wild.end());
  return x;
}

Fingerprint unary(Unary op) {
  const Floats x = arguments(81);
  Floats y(x.size());
  kernels::unary(op, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  return Digest().add(y).result();
}

Fingerprint binary(Binary op) {
  const Floats a = arguments(81), b = arguments(91);
  Floats y(a.size());
  kernels::binary(op, a.data(), b.data(), y.data(), static_cast<std::int64_t>(a.size()));
  return Digest().add(y).result();
}

Fingerprint scaled() {
  const Floats a = arguments(81), b = arguments(91), c = arguments(95);
  const auto n = static_cast<std::int64_t>(a.size());
  Floats y(a.size());
  Digest digest;
  kernels::add_scaled(a.data(), b.data(), -0.3f, y.data(), n);
  digest.add(y);
  kernels::addcmul(a.data(), b.data(), c.data(), 0.7f, y.data(), n);
  digest.add(y);
  kernels::addcdiv(a.data(), b.data(), c.data(), 0.7f, y.data(), n);
  digest.add(y);
  for (const float weight : {0.1f, 0.5f, 0.9f, -0.4f}) {
    kernels::lerp(a.data(), b.data(), weight, y.data(), n);
    digest.add(y);
  }
  return digest.result();
}

Fingerprint bounded() {
  const Floats x = arguments(81), dy = arguments(91);
  const auto n = static_cast<std::int64_t>(x.size());
  Floats y(x.size());
  Digest digest;
  kernels::clamp(x.data(), -0.5f, 3.0f, y.data(), n);
  digest.add(y);
  kernels::leaky_relu(x.data(), 0.01f, y.data(), n);
  digest.add(y);
  kernels::leaky_relu_backward(dy.data(), x.data(), 0.01f, y.data(), n);
  digest.add(y);
  kernels::hardtanh_backward(dy.data(), x.data(), -0.5f, 3.0f, y.data(), n);
  return digest.add(y).result();
}

Fingerprint powers() {
  const Floats x = arguments(81);
  Digest digest;
  for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, 4.0, -0.5, -1.0, -2.0, 1.5}) {
    Floats y(x.size());
    const bool done = kernels::power(x.data(), p, y.data(), static_cast<std::int64_t>(x.size()));
    digest.add(std::vector<std::int64_t>{done ? 1 : 0}).add(y);
  }
  return digest.result();
}

Fingerprint general_powers() {
  const Floats x = arguments(81), p = arguments(91);
  Floats positive = x, y(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  for (float& value : positive) value = std::fabs(value);
  Digest digest;
  kernels::general_power(x.data(), p.data(), y.data(), n);
  digest.add(y);
  kernels::general_power(positive.data(), p.data(), y.data(), n);
  digest.add(y);
  for (const float exponent : {0.3f, -1.7f, 3.0f, 33.0f}) {
    kernels::general_power(positive.data(), exponent, y.data(), n);
    digest.add(y);
  }
  return digest.result();
}

using kernels::ExactBinary;
using kernels::ExactUnary;

// The second operand is a column, then a number.
Digest& add_exact(Digest& digest, ExactBinary op) {
  constexpr std::int64_t kColumns = 3, kRows = kCount;
  const Floats a = arguments(81), b = arguments(91);
  const kernels::ElementShape shape{2, {kRows, kColumns}};
  const kernels::Operand matrix{a.data(), 0.0f, {kColumns, 1}};
  Floats y(a.size());
  kernels::exact_binary(op, shape, matrix, {b.data(), 0.0f, {1, 0}}, y.data());
  digest.add(y);
  kernels::exact_binary(op, shape, matrix, {nullptr, 0.1f, {}}, y.data());
  return digest.add(y);
}
Digest& add_exact(Digest& digest, ExactUnary op) {
  const Floats x = arguments(81);
  Floats y(x.size());
  kernels::exact_unary(op, {1, {static_cast<std::int64_t>(x.size())}}, {x.data(), 0.0f, {1}}, y.data());
  return digest.add(y);
}
// Two arrays that lie in one order; an array and a number on either side.
Fingerprint flat() {
  const Floats a = arguments(81), b = arguments(91);
  const auto n = static_cast<std::int64_t>(std::min(a.size(), b.size()));
  Floats y(static_cast<std::size_t>(n));
  Digest digest;
  for (const auto op : {ExactBinary::add, ExactBinary::subtract, ExactBinary::multiply, ExactBinary::divide}) {
    kernels::flat_binary(op, a.data(), b.data(), y.data(), n);
    digest.add(y);
    kernels::flat_with_number(op, a.data(), 0.1f, false, y.data(), n);
    digest.add(y);
    kernels::flat_with_number(op, a.data(), -3.0f, true, y.data(), n);
    digest.add(y);
  }
  return digest.result();
}
template <class Op>
Fingerprint exact(Op op) {
  Digest digest;
  return add_exact(digest, op).result();
}

// The first four, and the first eight with threshold, which no later one can join; and one of each.
Fingerprint exact_binaries() {
  Digest digest;
  for (const auto op : {ExactBinary::add, ExactBinary::subtract, ExactBinary::multiply, ExactBinary::divide})
    add_exact(digest, op);
  return digest.result();
}
Fingerprint exact_unaries() {
  Digest digest;
  for (const auto op : {ExactUnary::negate, ExactUnary::absolute, ExactUnary::floor, ExactUnary::ceil,
                        ExactUnary::trunc, ExactUnary::sign, ExactUnary::round, ExactUnary::frac}) {
    add_exact(digest, op);
  }
  const Floats x = arguments(81);
  Floats y(x.size());
  kernels::threshold({1, {static_cast<std::int64_t>(x.size())}}, {x.data(), 0.0f, {1}}, 0.5f, -2.0f, y.data());
  return digest.add(y).result();
}

Fingerprint fills() {
  Digest digest;
  for (const std::int64_t n : {1, 37, 20011}) {
    for (const float value :
         {0.1f, -0.0f, 0x1p-149f, contract::float_of(0xff800000u), contract::float_of(0xffc12345u)}) {
      Floats y(static_cast<std::size_t>(n));
      kernels::fill(value, y.data(), n);
      digest.add(y);
    }
  }
  return digest.result();
}

Fingerprint softmax(const kernels::SoftmaxShape& s, bool wild) {
  const std::int64_t n = s.outer * s.size * s.inner;
  const Floats x = wild ? hostile(101, n, true) : uniform(101, n, -10.0f, 10.0f), dy = uniform(102, n);
  Floats y(x.size()), log_y(x.size()), dx(x.size());
  kernels::softmax(s, x.data(), y.data());
  kernels::log_softmax(s, x.data(), log_y.data());
  Digest digest;
  digest.add(y).add(log_y);
  kernels::softmax_backward(s, dy.data(), y.data(), dx.data());
  digest.add(dx);
  kernels::log_softmax_backward(s, dy.data(), log_y.data(), dx.data());
  return digest.add(dx).result();
}

// Ranges that divide 2^64 and that do not; 0 stands for 2^64.
Fingerprint random_integers() {
  Digest digest;
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{7}, (std::int64_t{1} << 34) + 3}) {
    for (const std::uint64_t range :
         {std::uint64_t{1}, std::uint64_t{10}, (std::uint64_t{1} << 33) + 5, std::uint64_t{0}}) {
      std::vector<std::int64_t> out(kCount);
      kernels::fill_integers(116, first, -3, range, out.data(), kCount);
      digest.add(out);
    }
  }
  return digest.result();
}

Fingerprint random_permutations() {
  Digest digest;
  for (const auto& [first, count, n] :
       {std::array<std::int64_t, 3>{0, 1, 1}, {0, 1000, 1000}, {77, 2049, 1500}, {1ll << 39, (1ll << 40) + 1, 1500}}) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(n));
    kernels::fill_permutation(117, first, count, out.data(), n);
    digest.add(out);
  }
  return digest.result();
}

Fingerprint random_fills() {
  Digest digest;
  for (const std::int64_t first : {std::int64_t{0}, std::int64_t{6}, (std::int64_t{1} << 34) + 2}) {
    Floats out(kCount);
    kernels::fill_uniform(111, first, -2.0f, 3.0f, out.data(), kCount);
    digest.add(out);
    kernels::fill_normal(112, first, 0.5f, 2.0f, out.data(), kCount);
    digest.add(out);
    kernels::fill_bernoulli(113, first, 0.3, out.data(), kCount);
    digest.add(out);
    const Floats x = uniform(114, kCount);
    kernels::dropout(115, first, 0.9, x.data(), out.data(), kCount);
    digest.add(out);
  }
  return digest.result();
}

}  // namespace

void add_function_cases(std::vector<Case>& cases) {
  for (const Unary op : kernels::kAllUnary)
    cases.push_back({"unary." + std::string(name(op)), [=] { return unary(op); }});
  for (const Binary op : kernels::kAllBinary)
    cases.push_back({"binary." + std::string(name(op)), [=] { return binary(op); }});
  cases.push_back({"pointwise.scaled", [] { return scaled(); }});
  cases.push_back({"pointwise.bounded", [] { return bounded(); }});
  cases.push_back({"pointwise.powers", [] { return powers(); }});
  cases.push_back({"pointwise.general_powers", [] { return general_powers(); }});
  cases.push_back({"flat_elements", flat, true});
  cases.push_back({"elementwise.binary", [] { return exact_binaries(); }});
  cases.push_back({"elementwise.unary", [] { return exact_unaries(); }});
  for (const ExactBinary op : kernels::kAllExactBinary) {
    cases.push_back({"elementwise." + std::string(name(op)), [=] { return exact(op); }});
  }
  for (const ExactUnary op : kernels::kAllExactUnary) {
    cases.push_back({"elementwise." + std::string(name(op)), [=] { return exact(op); }});
  }
  cases.push_back({"elementwise.fill", fills});
  cases.push_back({"softmax.rows", [] { return softmax({37, 10, 1}, false); }});
  cases.push_back({"softmax.leaves", [] { return softmax({3, 1500, 1}, false); }});
  cases.push_back({"softmax.inner", [] { return softmax({3, 41, 19}, false); }});
  cases.push_back({"softmax.wild", [] { return softmax({50, 33, 1}, true); }});
  cases.push_back({"random.fills", [] { return random_fills(); }});
  cases.push_back({"random.integers", random_integers});
  cases.push_back({"random.permutations", random_permutations});
}

}  // namespace isobit::golden
