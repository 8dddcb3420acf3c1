// Products of the exact tier on a device: chunks of digits (exact_chunks.h), then blocks on int8 tensor cores
// (exact_blocks.h).
#include "kernels/exact_products.h"

#include <algorithm>

#include "kernels/cuda/exact_conv2d.h"
#include "kernels/cuda/exact_plan.h"
#include "kernels/cuda/exact_windows.h"
#include "kernels/cuda/matrix_product.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

// MatrixOutput (matrix_product.h) has alpha, beta, addend and C.
struct ExactMatrixProduct {
  using A = MatrixChunks;
  using B = MatrixChunks;
  using Column = std::int64_t;
  ProductShape shape;
  MatrixOutput output;
  A a;
  B b;

  ISOBIT_DEVICE Column column(std::int64_t, std::int64_t j) const { return j; }
  ISOBIT_DEVICE void store(Column j, std::int64_t batch, std::int64_t i, float product) const {
    output.store(batch, i, j, product);
  }
};

// One factor: its rows, in batches; a broadcast batch once.
class Factor {
 public:
  Factor(const MatmulProblem& p, const float* data, std::int64_t batch_stride, std::int64_t rows,
         std::int64_t row_stride, std::int64_t term_stride)
      : rows_(rows),
        batches_(batch_stride == 0 || data == nullptr ? 1 : p.batch),
        shape_(shape_of(p.k, batch_stride, row_stride, term_stride)),
        chunks_(slabs_of(p.k, batch_stride, row_stride, term_stride), shape_, data) {}

  [[nodiscard]] MatrixChunks operand() const {
    return {chunks_.chunks(), chunks_.largest(), batches_ == 1 ? 0 : rows_, rows_, shape_.depth()};
  }

 private:
  [[nodiscard]] ChunkShape shape_of(std::int64_t k, std::int64_t batch_stride, std::int64_t row_stride,
                                    std::int64_t term_stride) const {
    ChunkShape s;
    s.n0 = batches_, s.n1 = rows_, s.terms = k;
    s.s0 = batch_stride, s.s1 = row_stride, s.term = term_stride;
    s.l0 = rows_;
    return s;
  }
  [[nodiscard]] Slabs slabs_of(std::int64_t k, std::int64_t batch_stride, std::int64_t row_stride,
                               std::int64_t term_stride) const {
    Slabs s;
    s.outer = batches_, s.inner = rows_, s.outer_stride = batch_stride, s.inner_stride = row_stride;
    s.n1 = k, s.stride1 = term_stride;
    return s;
  }
  std::int64_t rows_, batches_;
  ChunkShape shape_;
  ExactChunks chunks_;
};

void matmul(const MatmulProblem& p) {
  if (p.batch * p.m * p.n == 0) return;
  const Factor a(p, p.a.data, p.a.batch_stride, p.m, p.a.row_stride, p.a.column_stride);
  const Factor b(p, p.b.data, p.b.batch_stride, p.n, p.b.column_stride, p.b.row_stride);
  const ProductShape shape{p.batch, p.m, p.n, p.k};
  const MatrixOutput output{shape, p.c, p.c_batch_stride, p.c_row_stride, p.c_column_stride, p.addend, p.alpha, p.beta};
  run_exact_blocks(ExactMatrixProduct{shape, output, a.operand(), b.operand()});
}

}  // namespace

void fill_exact_products(KernelTable& t) {
  t.exact3_matmul = matmul;
  t.exact3_conv2d_forward = exact_conv2d_forward;
  t.exact3_conv2d_input_gradient = exact_conv2d_input_gradient;
  t.exact3_conv2d_weight_gradient = exact_conv2d_weight_gradient;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
