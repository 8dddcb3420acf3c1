#include <algorithm>

#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/wide_functions.h"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;
using kernels::WideBinary;
using kernels::WideUnary;

constexpr std::int64_t kGroup = 1501;  // odd: every build has a tail

// Whole numbers (quotients without a rest, equal arguments), the unit interval, the range where functions are neither 0
// nor infinite, its ends, and every exponent with zeros, subnormals, infinities and NaN of both signs.
Floats arguments(std::uint64_t key) {
  Floats x;
  for (const std::int64_t value : integers(key, kGroup, 41)) x.push_back(static_cast<float>(value - 20) * 0.5f);
  for (const float reach : {1.0f, 20.0f, 160.0f}) {
    const Floats more = uniform(++key, kGroup, -reach, reach);
    x.insert(x.end(), more.begin(), more.end());
  }
  Floats wild = hostile(++key, kGroup, true);
  for (std::size_t i = 5; i < wild.size(); i += 64) wild[i] = contract::float_of(0xffc12345u);
  for (std::size_t i = 9; i < wild.size(); i += 64)
    wild[i] = contract::float_of(0x80000001u + static_cast<std::uint32_t>(i));
  x.insert(x.end(), wild.begin(), wild.end());
  return x;
}

Fingerprint unary(WideUnary op) {
  const Floats x = arguments(151);
  Floats y(x.size());
  kernels::wide_unary(op, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  return Digest().add(y).result();
}

// Each group meets its like, then the next group.
Fingerprint binary(WideBinary op) {
  const Floats a = arguments(161);
  Floats b = arguments(171), y(a.size());
  Digest digest;
  for (int pass = 0; pass < 2; ++pass) {
    kernels::wide_binary(op, a.data(), b.data(), y.data(), static_cast<std::int64_t>(a.size()));
    digest.add(y);
    std::rotate(b.begin(), b.begin() + kGroup, b.end());
  }
  return digest.result();
}

}  // namespace

void add_wide_cases(std::vector<Case>& cases) {
  for (const WideUnary op : kernels::kAllWideUnary) {
    cases.push_back({"wide_unary." + std::string(name(op)), [=] { return unary(op); }});
  }
  for (const WideBinary op : kernels::kAllWideBinary) {
    cases.push_back({"wide_binary." + std::string(name(op)), [=] { return binary(op); }});
  }
}

}  // namespace isobit::golden
