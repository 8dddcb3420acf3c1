#include "kernels/matmul.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/reference/dot_panel.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

// The value of an output once its product is known: products by alpha and beta rounded, one addition.
template <class T>
T with_addend(const MatmulProblemOf<T>& p, std::int64_t batch, std::int64_t i, std::int64_t j, T product) {
  const T scaled = p.alpha == T(1) ? product : p.alpha * product;
  if (p.addend.data == nullptr) return scaled;
  const MatmulOperandOf<T>& d = p.addend;
  const T addend = d.data[batch * d.batch_stride + i * d.row_stride + j * d.column_stride];
  return (p.beta == T(1) ? addend : p.beta * addend) + scaled;
}

// Outputs [i0, i0 + rows) x [j0, j0 + columns) of one batch member.
template <class T>
void block(const MatmulProblemOf<T>& p, std::int64_t batch, std::int64_t i0, std::int64_t j0) {
  const std::int64_t rows = std::min(kPanelRows, p.m - i0), columns = std::min(kPanelColumns, p.n - j0);
  const T* a = p.a.data + batch * p.a.batch_stride + i0 * p.a.row_stride;
  const T* b = p.b.data + batch * p.b.batch_stride + j0 * p.b.column_stride;
  dot_panel<T>(
      rows, columns, p.k,
      [&](std::int64_t k, T* row) {
        for (std::int64_t r = 0; r < rows; ++r) row[r] = a[r * p.a.row_stride + k * p.a.column_stride];
      },
      [&](std::int64_t k, T* column) {
        for (std::int64_t c = 0; c < columns; ++c) column[c] = b[k * p.b.row_stride + c * p.b.column_stride];
      },
      [&](std::int64_t r, std::int64_t c, T product) {
        p.c[batch * p.c_batch_stride + (i0 + r) * p.c_row_stride + (j0 + c) * p.c_column_stride] =
            with_addend(p, batch, i0 + r, j0 + c, product);
      });
}

// The transposed problem: fma(a, b, t) is fma(b, a, t).
template <class T>
MatmulProblemOf<T> turned(const MatmulProblemOf<T>& p) {
  const auto turn = [](const MatmulOperandOf<T>& o) {
    return MatmulOperandOf<T>{o.data, o.batch_stride, o.column_stride, o.row_stride};
  };
  MatmulProblemOf<T> t = p;
  t.m = p.n, t.n = p.m;
  t.a = turn(p.b), t.b = turn(p.a), t.addend = turn(p.addend);
  t.c_row_stride = p.c_column_stride, t.c_column_stride = p.c_row_stride;
  return t;
}

template <class T>
void multiply(const MatmulProblemOf<T>& given) {
  const MatmulProblemOf<T> p = given.n < given.m ? turned(given) : given;  // a panel has all its columns, needed or not
  const std::int64_t row_blocks = (p.m + kPanelRows - 1) / kPanelRows;
  const std::int64_t column_blocks = (p.n + kPanelColumns - 1) / kPanelColumns;
  const std::int64_t blocks = row_blocks * column_blocks;
  parallel_for(0, p.batch * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t within = index % blocks;
      block(p, index / blocks, within / column_blocks * kPanelRows, within % column_blocks * kPanelColumns);
    }
  });
}

}  // namespace

void fill_matmul(KernelTable& t) { t.matmul = multiply<float>; }
void fill_matmul(HostTable& t) { t.matmul = multiply<double>; }

}  // namespace isobit::kernels::reference
