// The SHA-256 of weights: a name that nobody can give to two sets of weights, as he could the 128-bit fingerprint,
// which is a sum (docs/contract.md, section 9, says what each is for). Thread-safe; no state.
#pragma once

#include <span>
#include <string>

#include "archive/safetensors.h"

namespace isobit::archive {

// SHA-256, 64 lower-case hex digits, of the file that the public library's safetensors.torch.save writes for these
// tensors without metadata: the larger dtype first, then by name. Every NaN counts as the quiet NaN without sign and
// payload (contract, section 1). The tensors may come in any order; std::invalid_argument as safetensors_header.
[[nodiscard]] std::string weights_sha256(std::span<const TensorView> tensors);

}  // namespace isobit::archive
