// Which source rows meet which destination row, sorted out on the host by counting, or where the index lies on a device
// by sorting there. Private to this folder. Thread-safe.
#pragma once

#include <initializer_list>
#include <utility>

#include "aten/certified/support/tensors.h"
#include "kernels/indexed.h"

namespace isobit::aten {

struct IndexedPlan {
  at::Tensor begin, order;  // on the working device
  at::Tensor row;           // of each list, where there is none for rows that nothing meets
  std::int64_t rows = 0;    // of the destination
  [[nodiscard]] kernels::Occurrences occurrences() const {
    return {begin.numel() - 1, begin.const_data_ptr<std::int64_t>(), order.const_data_ptr<std::int64_t>(),
            row.defined() ? row.const_data_ptr<std::int64_t>() : nullptr, rows};
  }
};

// Contiguous int64 on the host.
[[nodiscard]] at::Tensor host_integers(std::int64_t n);
[[nodiscard]] at::Tensor on_host(const at::Tensor& index);
// The same on the working device where the index is there, else on the host.
[[nodiscard]] at::Tensor where_it_works(const at::Tensor& index);

// destinations[k] is source row k's, where it works; negative ones meet nothing. By counting, in the time of the rows,
// or by sorting, where few of many rows are met. The plan serves `outer` times.
[[nodiscard]] IndexedPlan plan_of(const at::Tensor& destinations, std::int64_t rows, std::int64_t outer = 1);
// Always a list for every row.
[[nodiscard]] IndexedPlan plan_of_all_rows(const at::Tensor& destinations, std::int64_t rows);
// Given as lists one after another, on the host: row r's are order[begin[r]] .. order[begin[r + 1] - 1].
[[nodiscard]] IndexedPlan plan_of_lists(const at::Tensor& begin, const at::Tensor& order);

// Row-major number in a tensor of `self_sizes` of the destination of every element of the index (contiguous, where
// it works).
[[nodiscard]] at::Tensor linear_destinations(const at::Tensor& index, at::IntArrayRef self_sizes, std::int64_t dim);

// What scatters share: each element of the index names the destination, along `dim`, of the source's element at its own
// position. Checked; the source is cut to the index's sizes, contiguous. Its row k is its elements
// [k * inner, (k + 1) * inner), and goes to row to[k] of a destination of so many. An index that is the same all over
// the last dimensions (one for each row, expanded) names whole rows; else inner is 1.
struct Scatter {
  at::Tensor source, to;
  std::int64_t rows, inner;
};
[[nodiscard]] Scatter scatter_into(const char* op, const at::Tensor& destination, std::int64_t dim,
                                   const at::Tensor& index, const at::Tensor& source);

// A contiguous copy, past the dispatcher's memory formats.
[[nodiscard]] at::Tensor fresh_copy(const at::Tensor& self);
// The contract's sums (kernels/indexed.h's indexed_add). destination [outer, rows, inner] and source [outer, n, inner]
// are contiguous; row k of the source goes to row to[k] (n of them, where it works, contiguous; negative ones
// meet nothing).
void add_by_index(const at::Tensor& destination, const at::Tensor& source, const at::Tensor& to, std::int64_t outer,
                  std::int64_t rows, std::int64_t inner, double alpha = 1.0);

// write(result) for an operator in place: into self itself where it may be written while the inputs are read, else into
// a copy, which becomes self then. Throws where elements of self share memory.
template <class Write>
at::Tensor& write_in_place(const char* op, at::Tensor& self, std::initializer_list<const at::Tensor*> inputs,
                           Write&& write) {
  const at::Tensor result = prepare_out(op, self, self.sizes(), self.scalar_type(), inputs) ? self : fresh_copy(self);
  std::forward<Write>(write)(result);
  if (!result.is_same(self)) self.copy_(result);
  return self;
}

// Throws, naming the first index outside [0, rows). Waits for a device.
void check_index(const char* op, const at::Tensor& index, std::int64_t rows);

// self, contiguous: along `dim` the rows of `source` are added by index (kernels/indexed.h).
void add_rows(const char* op, const at::Tensor& self, std::int64_t dim, const at::Tensor& index,
              const at::Tensor& source, const at::Scalar& alpha);
// self, contiguous, seen as [outer, rows, inner]: row destinations[k] (on the host, inside) becomes row k of source
// [outer, n, inner], contiguous and of the same type; of two at one place the later. For devices, whose stock kernels
// leave that open.
void place_rows(const at::Tensor& self, const at::Tensor& destinations, std::int64_t outer, std::int64_t rows,
                std::int64_t inner, const at::Tensor& source);
// dweight[row] = sum of the rows of dy [n, width] that `index` (where it works) names; index = padding meets nothing.
[[nodiscard]] at::Tensor row_gradients(const char* op, const at::Tensor& dy, const at::Tensor& index, std::int64_t rows,
                                       std::int64_t padding, bool scale_by_frequency);

}  // namespace isobit::aten
