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

template <class T>
struct MatmulOperandOf {
  const T* data = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, column_stride = 0;
};

using MatmulOperand = MatmulOperandOf<float>;

template <class T>
struct MatmulProblemOf {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  MatmulOperandOf<T> a{};       // [batch, m, k]
  MatmulOperandOf<T> b{};       // [batch, k, n]
  MatmulOperandOf<T> addend{};  // D [batch, m, n]; data == nullptr: none
  T alpha = T(1), beta = T(1);
  T* c = nullptr;  // [batch, m, n]
  std::int64_t c_batch_stride = 0, c_row_stride = 0, c_column_stride = 1;
};
using MatmulProblem = MatmulProblemOf<float>;
using WideMatmulProblem = MatmulProblemOf<double>;

// Thread-safe; uses the pool.
void matmul(const MatmulProblem& problem);
void matmul(const WideMatmulProblem& problem);  // binary64, on hosts

}  // namespace isobit::kernels
