// Floats as integers: by value (contract, section 1) and by their bits. Thread-safe; no state.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

namespace isobit::aten {

// Whether the integer type holds every value, truncated towards zero: there the language defines the conversion, and
// stock's is exact. float32 and float64 only, of any device; false of other types.
[[nodiscard]] bool integer_type_holds(const at::Tensor& floats, c10::ScalarType type);

// The same shape and device in the integer type: truncated towards zero, the nearest end of the type's range for what
// lies beyond, 0 for NaN. Real floats of any width (16-bit and smaller ones are converted to float32 first, which is
// exact); `type` is not bool.
[[nodiscard]] at::Tensor saturated(const at::Tensor& floats, c10::ScalarType type);

// Whether a NaN among them has other bits than the canonical NaN of its type (0x7fc00000 in binary32): which bits an
// operation gives its NaN depends on the machine, so what reads them as an integer would, too. Real floats and complex
// numbers of 16 to 64 bits a part; true of smaller types where a NaN is there at all.
[[nodiscard]] bool holds_other_nan(const at::Tensor& floats);

}  // namespace isobit::aten
