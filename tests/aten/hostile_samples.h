// Sample arguments for any overload of the exact list, made from its schema: hostile values, enough of them
// that stock uses every thread, and shapes that most operators accept. Tests only.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "call_operator.h"

namespace isobit::test {

// Values of every awkward kind: signed zeros, subnormals, infinities, NaN, halves, and random bit patterns for
// floats; small and extreme ones for integers. Deterministic in `seed`.
[[nodiscard]] at::Tensor hostile_tensor(at::IntArrayRef sizes, at::ScalarType type, std::uint64_t seed);

// With this side an operand of 2 x 4 x side x side has above three times torch's grain of 32768 elements, so that
// three threads have work.
inline constexpr std::int64_t kManySide = 112;
inline constexpr std::int64_t kFewSide = 8;

// Arguments for the operator, out= arguments of out_type. Throws where there are none of that type.
[[nodiscard]] Values sample_of(const std::string& full_name, at::ScalarType type, at::ScalarType out_type,
                               std::int64_t side);

// NaN payloads aside (contract, section 1), equal digests mean equal types, shapes and bits.
[[nodiscard]] std::uint64_t digest_of(const c10::IValue& value);

}  // namespace isobit::test
