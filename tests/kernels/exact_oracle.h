// What the tests of exact products share: an oracle of its own arithmetic (long double and __int128), values that
// stress it, and the implementations that are held against it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "contract/platform.h"
#ifdef ISOBIT_EMULATED_CUDA
#include "kernels/cuda/emulation/emulation.h"
#endif
#include "kernels/dispatch/kernel_table.h"
#include "kernels/float_environment.h"
#include "kernels/isa.h"

namespace isobit::kernels {

__extension__ typedef __int128 Wide;
using Floats = std::vector<float>;

// ---- the oracle: nothing of src/contract/exact_products.h

struct OracleRow {
  bool finite = true;
  int exponent = 0;
  std::vector<int> first, second, third;
};

// `slab`: the elements whose largest decides the exponent.
inline OracleRow oracle_row(const Floats& row, const Floats& slab) {
  OracleRow r;
  long double largest = 0;
  for (const float x : slab) {
    if (!std::isfinite(x)) r.finite = false;
    largest = std::max(largest, std::fabs(static_cast<long double>(x)));
  }
  if (!r.finite) return r;
  if (largest > 0) {
    r.exponent = -200;
    while (largest > std::ldexp(static_cast<long double>(127 * 65793), r.exponent - 24)) ++r.exponent;
  }
  for (const float x : row) {
    long v = std::lrint(std::ldexp(static_cast<long double>(x), 24 - r.exponent));
    int digit[3];
    for (int i = 2; i >= 0; --i) {
      long d = v % 256;  // balanced
      if (d > 127) d -= 256;
      if (d < -128) d += 256;
      digit[i] = static_cast<int>(d);
      v = (v - d) / 256;
    }
    EXPECT_EQ(v, 0) << x;
    r.first.push_back(digit[0]), r.second.push_back(digit[1]), r.third.push_back(digit[2]);
  }
  return r;
}
inline OracleRow oracle_row(const Floats& row) { return oracle_row(row, row); }

inline float oracle(const OracleRow& a, const OracleRow& b) {
  if (!a.finite || !b.finite) return std::numeric_limits<float>::quiet_NaN();
  Wide sum = 0;
  for (std::size_t k = 0; k < a.first.size(); ++k) {
    sum += Wide(a.first[k]) * b.first[k] * 65536 +
           (Wide(a.first[k]) * b.second[k] + Wide(a.second[k]) * b.first[k]) * 256 + Wide(a.first[k]) * b.third[k] +
           Wide(a.second[k]) * b.second[k] + Wide(a.third[k]) * b.first[k];
  }
  if (sum == 0) return 0.0f;
  const float value =
      static_cast<float>(std::ldexp(static_cast<long double>(sum), a.exponent + b.exponent - 32));  // 64 bits: exact
  return value == 0 ? 0.0f : value;
}

// ---- values

enum class Values { normal, decades, specials, subnormal, largest };

// `decades`: magnitudes from 2^-60 to 2^60 within a row; `largest`: all digits at their ends.
inline Floats values(std::int64_t n, Values kind, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Floats x(static_cast<std::size_t>(n));
  for (float& v : x) {
    v = normal(engine);
    if (kind == Values::decades) v = std::ldexp(v, static_cast<int>(engine() % 121) - 60);
    if (kind == Values::subnormal) v = std::ldexp(v, -140);
    if (kind == Values::largest) {
      constexpr float kEnds[] = {8355711.0f, -8355711.0f, -32896.0f, 32639.0f, -8355712.0f + 1, 8323200.0f, 65408.0f};
      v = kEnds[engine() % 7];
    }
    if (kind == Values::specials && engine() % 13 == 0) v = engine() % 2 == 0 ? 0.0f : -0.0f;
    if (kind == Values::specials && engine() % 61 == 0) v = std::ldexp(v, 126);
    if (kind == Values::specials && engine() % 997 == 0) {
      constexpr float kSpecial[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                                    -std::numeric_limits<float>::infinity()};
      v = kSpecial[engine() % 3];
    }
  }
  return x;
}

// A row reordered: element i of the result is element order[i].
inline Floats permuted(const Floats& x, const std::vector<std::size_t>& order) {
  Floats y;
  for (const std::size_t i : order) y.push_back(x[i]);
  return y;
}

// The first place where bits differ (any NaN equals any), or -1.
inline std::int64_t difference(const Floats& a, const Floats& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != a[i] && b[i] != b[i]) continue;
    if (contract::bits_of(a[i]) != contract::bits_of(b[i])) return static_cast<std::int64_t>(i);
  }
  return a.size() == b.size() ? -1 : static_cast<std::int64_t>(std::min(a.size(), b.size()));
}

// ---- implementations

// An instruction set of the host, or the emulated device with its threads in an order.
struct Implementation {
  Isa isa = Isa::reference;
  int order = -1;
  // NOLINTNEXTLINE(google-explicit-constructor)
  Implementation(Isa of_host) : isa(of_host) {}
  explicit Implementation(int of_device) : order(of_device) {}

  [[nodiscard]] bool on_device() const { return order >= 0; }
};
inline std::string name(const Implementation& i) {
  return i.on_device() ? "emulated device, order " + std::to_string(i.order) : std::string(kernels::name(i.isa));
}

// The device in its three orders in turn, from call to call.
inline std::vector<Implementation> implementations() {
  std::vector<Implementation> all;
  for (const Isa isa : available_product_isas()) all.push_back(isa);
#ifdef ISOBIT_EMULATED_CUDA
  static int calls = 0;
  all.emplace_back(calls++ % 3);
#endif
  return all;
}

// compute(table) by an implementation.
template <class Compute>
void on(const Implementation& implementation, Compute compute) {
  const FloatEnvironment environment;
#ifdef ISOBIT_EMULATED_CUDA
  if (implementation.on_device()) {
    const emulated::EmulatedScope scope(static_cast<emulated::ThreadOrder>(implementation.order));
    return compute(*emulated::backend().table);
  }
#endif
  compute(table_of(implementation.isa));
}

}  // namespace isobit::kernels
