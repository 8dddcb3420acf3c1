// Which source rows meet which destination row, sorted out on the host by counting. Private to this folder.
// Thread-safe.
#pragma once

#include "aten/certified/support/tensors.h"
#include "kernels/indexed.h"

namespace isobit::aten {

struct IndexedPlan {
  at::Tensor begin, order;  // on the working device
  [[nodiscard]] kernels::Occurrences occurrences() const {
    return {begin.numel() - 1, begin.const_data_ptr<std::int64_t>(), order.const_data_ptr<std::int64_t>()};
  }
};

// Contiguous int64 on the host.
[[nodiscard]] at::Tensor host_integers(std::int64_t n);
[[nodiscard]] at::Tensor on_host(const at::Tensor& index);

// destinations[k] is source row k's, on the host; negative ones meet nothing.
[[nodiscard]] IndexedPlan plan_of(const at::Tensor& destinations, std::int64_t rows);
// Given as lists one after another, on the host: row r's are order[begin[r]] .. order[begin[r + 1] - 1].
[[nodiscard]] IndexedPlan plan_of_lists(const at::Tensor& begin, const at::Tensor& order);

// Row-major number in a tensor of `self_sizes` of the destination of every element of the index (contiguous, on the
// host).
[[nodiscard]] at::Tensor linear_destinations(const at::Tensor& index, at::IntArrayRef self_sizes, std::int64_t dim);

// What scatters share: each element of the index names the destination, along `dim`, of the source's element at its own
// position. Checked; the source is cut to the index's sizes, contiguous, and row k of the plan is its element k.
struct Scatter {
  at::Tensor source;
  IndexedPlan plan;
};
[[nodiscard]] Scatter scatter_into(const char* op, const at::Tensor& destination, std::int64_t dim,
                                   const at::Tensor& index, const at::Tensor& source);

// Throws, naming the first index outside [0, rows).
void check_index(const char* op, const at::Tensor& host_index, std::int64_t rows);

// self, contiguous: along `dim` the rows of `source` are added by index (kernels/indexed.h).
void add_rows(const char* op, const at::Tensor& self, std::int64_t dim, const at::Tensor& index,
              const at::Tensor& source, const at::Scalar& alpha);
// self, contiguous, seen as [outer, rows, inner]: row destinations[k] (on the host, inside) becomes row k of source
// [outer, n, inner], contiguous and of the same type; of two at one place the later. For devices, whose stock kernels
// leave that open.
void place_rows(const at::Tensor& self, const at::Tensor& destinations, std::int64_t outer, std::int64_t rows,
                std::int64_t inner, const at::Tensor& source);
// A contiguous copy, past the dispatcher's memory formats.
[[nodiscard]] at::Tensor fresh_copy(const at::Tensor& self);
// dweight[row] = sum of the rows of dy [n, width] that `index` (on the host) names; index = padding meets nothing.
[[nodiscard]] at::Tensor row_gradients(const char* op, const at::Tensor& dy, const at::Tensor& index, std::int64_t rows,
                                       std::int64_t padding, bool scale_by_frequency);

}  // namespace isobit::aten
