// Matrix products in contract order (section 3), batched and strided.
//
//   C[b,i,j] = alpha * tree(A[b,i,k] * B[b,k,j] over k)                        without an addend
//   C[b,i,j] = beta * D[b,i,j] + alpha * tree(...)                             with one
//
// Products by alpha and beta are rounded (a factor of 1 changes nothing and is not applied); then one
// addition. All strides are in elements, may be 0 or negative for inputs; transposes, matrix-vector
// products and broadcast batches are strides. k = 0 gives +0 for the product.
// C must not overlap any input. Bits depend on the values alone: not on strides, threads, ISA.
#pragma once

#include <cstdint>

namespace isobit::kernels {

struct MatmulOperand {
  const float* data = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, column_stride = 0;
};

struct MatmulProblem {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatmulOperand a{};       // [batch, m, k]
  MatmulOperand b{};       // [batch, k, n]
  MatmulOperand addend{};  // D [batch, m, n]; data == nullptr: none
  float alpha = 1.0f, beta = 1.0f;
  float* c = nullptr;  // [batch, m, n]
  std::int64_t c_batch_stride = 0, c_row_stride = 0, c_column_stride = 1;
};

// Thread-safe; uses the pool.
void matmul(const MatmulProblem& problem);

}  // namespace isobit::kernels
