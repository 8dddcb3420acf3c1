// What is added to attention's scores, where it is memory alone and takes no gradient. Private to this folder.
// Thread-safe; no state.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <limits>
#include <optional>

#include "aten/certified/support/eight_floats.h"
#include "aten/plain_memory.h"

namespace isobit::aten {

// Memory alone, on the CPU, and no gradient.
[[nodiscard]] inline bool is_values(const at::Tensor& x) {
  return x.is_cpu() && is_plain_memory(x) && !(at::GradMode::is_enabled() && x.requires_grad());
}

// [n, heads, queries, keys] by strides, 0 where a dimension is broadcast. Of booleans 0 where one is set and -inf
// elsewhere.
struct AttentionMask {
  at::Tensor values;    // undefined: none
  bool causal = false;  // -inf for keys behind the query, too

  // Whether a row at a time can be added.
  [[nodiscard]] static bool fits(const std::optional<at::Tensor>& mask, const at::Tensor& q, const at::Tensor& k) {
    if (!mask || !mask->defined()) return true;
    const std::int64_t wanted[] = {q.size(0), q.size(1), q.size(2), k.size(2)}, dims = mask->dim();
    if (dims > 4 || !is_values(*mask)) return false;
    if (mask->scalar_type() != at::kFloat && mask->scalar_type() != at::kBool) return false;
    for (std::int64_t d = 0; d < dims; ++d) {
      if (mask->size(d) != 1 && mask->size(d) != wanted[4 - dims + d]) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_none() const { return !values.defined() && !causal; }

  // Row `query` of one head to a row of scores.
  void add(std::int64_t n, std::int64_t head, std::int64_t query, std::int64_t keys, float* scores) const {
    constexpr float kOut = -std::numeric_limits<float>::infinity();
    if (causal && query + 1 < keys) each_eight(keys - query - 1, scores + query + 1, [=](auto& x) { x = x + kOut; });
    if (!values.defined()) return;
    const std::int64_t at = n * values.stride(0) + head * values.stride(1) + query * values.stride(2);
    const std::int64_t step = values.stride(3);
    if (values.scalar_type() == at::kFloat) {
      const float* const row = values.const_data_ptr<float>() + at;
      if (step == 1) return each_eight(keys, scores, row, [](auto& x, const auto& added) { x = x + added; });
      for (std::int64_t j = 0; j < keys; ++j) scores[j] += row[j * step];
    } else {
      const auto* const row =
          reinterpret_cast<const std::uint8_t*>(values.const_data_ptr<bool>()) + at;  // of any bytes
      if (step == 1) return add_where_unset(keys, row, kOut, scores);
      for (std::int64_t j = 0; j < keys; ++j) scores[j] += row[j * step] != 0 ? 0.0f : kOut;
    }
  }
};

}  // namespace isobit::aten
