// Loops over rows of floats, some at a time: what is compiled for any processor becomes vectors no other way. The
// operations are the same element by element. Private to this folder; no state.
#pragma once

#include <cstdint>
#include <cstring>

namespace isobit::aten {

using EightFloats = float __attribute__((vector_size(32)));

[[gnu::always_inline]] inline void load_eight(const float* from, EightFloats& x) { std::memcpy(&x, from, sizeof x); }
[[gnu::always_inline]] inline void store_eight(float* to, const EightFloats& x) { std::memcpy(to, &x, sizeof x); }

// change(y[i]), or change(y[i], x[i]), for i < n: of eight elements, of one for the last.
template <class Change>
[[gnu::always_inline]] inline void each_eight(std::int64_t n, float* y, const Change& change) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    EightFloats of_y;
    load_eight(y + i, of_y);
    change(of_y);
    store_eight(y + i, of_y);
  }
  for (; i < n; ++i) change(y[i]);
}
template <class Change>
[[gnu::always_inline]] inline void each_eight(std::int64_t n, float* y, const float* x, const Change& change) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    EightFloats of_y, of_x;
    load_eight(y + i, of_y), load_eight(x + i, of_x);
    change(of_y, of_x);
    store_eight(y + i, of_y);
  }
  for (; i < n; ++i) change(y[i], x[i]);
}

// y[i] += set[i] != 0 ? +0 : out, for i < n; out is not NaN. Sixteen bytes become words by being put beside themselves.
inline void add_where_unset(std::int64_t n, const std::uint8_t* set, float out, float* y) {
  using Bytes = std::int8_t __attribute__((vector_size(16)));
  using Halves = std::int16_t __attribute__((vector_size(16)));
  using Words = std::int32_t __attribute__((vector_size(16)));
  using Floats = float __attribute__((vector_size(16)));
  const Words outside = (Words)(Floats{} + out);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    Bytes bytes;
    std::memcpy(&bytes, set + i, sizeof bytes);
    bytes = bytes == 0;
    const Halves low =
        (Halves)__builtin_shufflevector(bytes, bytes, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const Halves high =
        (Halves)__builtin_shufflevector(bytes, bytes, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const Words unset[4] = {(Words)__builtin_shufflevector(low, low, 0, 8, 1, 9, 2, 10, 3, 11),
                            (Words)__builtin_shufflevector(low, low, 4, 12, 5, 13, 6, 14, 7, 15),
                            (Words)__builtin_shufflevector(high, high, 0, 8, 1, 9, 2, 10, 3, 11),
                            (Words)__builtin_shufflevector(high, high, 4, 12, 5, 13, 6, 14, 7, 15)};
    for (int w = 0; w < 4; ++w) {
      Floats of_y;
      std::memcpy(&of_y, y + i + 4 * w, sizeof of_y);
      of_y = of_y + (Floats)(unset[w] & outside);
      std::memcpy(y + i + 4 * w, &of_y, sizeof of_y);
    }
  }
  for (; i < n; ++i) y[i] += set[i] != 0 ? 0.0f : out;
}

}  // namespace isobit::aten
