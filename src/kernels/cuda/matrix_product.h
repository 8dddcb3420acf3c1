// Strided, batched matrix products as tile products. Private to this folder: matmul.cu and its tests.
#pragma once

#include "kernels/cuda/product_plan.h"
#include "kernels/cuda/strided_operand.h"
#include "kernels/matmul.h"

namespace isobit::kernels::ISOBIT_CUDA {

// Everything but the operands' types, which say how threads walk over them.
struct MatrixOutput {
  ProductShape shape;
  float* c = nullptr;
  std::int64_t c_batch_stride = 0, c_row_stride = 0, c_column_stride = 0;
  MatmulOperand addend;
  float alpha = 1.0f, beta = 1.0f;
  bool wide = false;

  // Products by alpha and beta rounded, one addition.
  ISOBIT_DEVICE float with_addend(std::int64_t batch, std::int64_t i, std::int64_t j, float product) const {
    const float scaled = alpha == 1.0f ? product : alpha * product;
    if (addend.data == nullptr) return scaled;
    const float d = addend.data[batch * addend.batch_stride + i * addend.row_stride + j * addend.column_stride];
    return (beta == 1.0f ? d : beta * d) + scaled;
  }
  ISOBIT_DEVICE void store(std::int64_t batch, std::int64_t i, std::int64_t j, float product) const {
    c[batch * c_batch_stride + i * c_row_stride + j * c_column_stride] = with_addend(batch, i, j, product);
  }
  ISOBIT_DEVICE void store4(std::int64_t batch, std::int64_t i, std::int64_t j, Float4 product) const {
    store4_at(c + batch * c_batch_stride + i * c_row_stride + j, batch, i, j, product);
  }

 private:
  ISOBIT_DEVICE void store4_at(float* to, std::int64_t batch, std::int64_t i, std::int64_t j, Float4 product) const {
    ISOBIT_CUDA::store4(to, {with_addend(batch, i, j, product.x), with_addend(batch, i, j + 1, product.y),
                             with_addend(batch, i, j + 2, product.z), with_addend(batch, i, j + 3, product.w)});
  }
};

template <Walk walk_a, Walk walk_b>
struct MatrixProduct : MatrixOutput {
  using A = StridedOperand<walk_a>;
  using B = StridedOperand<walk_b>;
  A a;
  B b;
};

[[nodiscard]] inline bool aligned16(const float* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

// C's columns run along contiguous memory (C^T = B^T A^T), skinny products have few columns.
[[nodiscard]] inline MatmulProblem oriented(const MatmulProblem& p) {
  constexpr std::int64_t kFew = SkinnyTile::kColumns;
  const bool few_rows = p.m <= kFew && p.n > kFew, few_columns = p.n <= kFew && p.m > kFew;
  const bool along_rows = p.c_row_stride == 1 && p.c_column_stride != 1;
  if (!few_rows && (few_columns || !along_rows)) return p;
  MatmulProblem t = p;
  const auto turned = [](const MatmulOperand& o) -> MatmulOperand {
    return {o.data, o.batch_stride, o.column_stride, o.row_stride};
  };
  t.m = p.n, t.n = p.m;
  t.a = turned(p.b), t.b = turned(p.a), t.addend = turned(p.addend);
  t.c_row_stride = p.c_column_stride, t.c_column_stride = p.c_row_stride;
  return t;
}

[[nodiscard]] inline Walk walk_over(const StridedLayout& l) {
  return l.k_stride == 1 && l.row_stride != 1 ? Walk::k : Walk::rows;
}
[[nodiscard]] inline bool is_wide(const StridedLayout& l) {
  return l.row_stride == 1 && l.rows % 4 == 0 && l.k_stride % 4 == 0 && l.batch_stride % 4 == 0 && aligned16(l.data);
}

template <class Problem>
void run_planned(const Problem& p, const ProductPlan& plan, int processors) {
  if (plan.config == kLarge) return run_tiles<LargeTile>(p, plan.chunk_leaves, processors);
  if (plan.config == kMedium) return run_tiles<MediumTile>(p, plan.chunk_leaves, processors);
  if (plan.config == kSmall) return run_tiles<SmallTile>(p, plan.chunk_leaves, processors);
  run_tiles<SkinnyTile>(p, plan.chunk_leaves, processors);
}

template <Walk walk_a, Walk walk_b>
void run_matrix_product(const MatrixOutput& output, const StridedLayout& a, const StridedLayout& b,
                        const ProductPlan& plan, int processors) {
  run_planned(MatrixProduct<walk_a, walk_b>{output, {a}, {b}}, plan, processors);
}

template <class PlanOf>
void matmul_as_planned(const MatmulProblem& p, PlanOf plan_of) {
  const MatmulProblem t = oriented(p);
  StridedLayout a{t.a.data, t.a.batch_stride, t.a.row_stride, t.a.column_stride, t.m};
  StridedLayout b{t.b.data, t.b.batch_stride, t.b.column_stride, t.b.row_stride, t.n};
  a.wide = is_wide(a), b.wide = is_wide(b);
  MatrixOutput out{{t.batch, t.m, t.n, t.k}, t.c,      t.c_batch_stride, t.c_row_stride,
                   t.c_column_stride,        t.addend, t.alpha,          t.beta};
  out.wide = t.c_column_stride == 1 && t.c_row_stride % 4 == 0 && t.c_batch_stride % 4 == 0 && aligned16(t.c);
  const int processors = multiprocessors();
  const ProductPlan plan = plan_of(out.shape, processors);
  const bool a_by_k = walk_over(a) == Walk::k, b_by_k = walk_over(b) == Walk::k;
  const auto run =
      a_by_k ? (b_by_k ? run_matrix_product<Walk::k, Walk::k> : run_matrix_product<Walk::k, Walk::rows>)
             : (b_by_k ? run_matrix_product<Walk::rows, Walk::k> : run_matrix_product<Walk::rows, Walk::rows>);
  run(out, a, b, plan, processors);
}

}  // namespace isobit::kernels::ISOBIT_CUDA
