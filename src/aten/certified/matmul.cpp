// Matrix products (contract, section 3). Transposes and broadcasts reach the kernel as strides.
//
// As in torch, beta = 0 means that the addend is not read at all (its NaN does not pass).
#include "kernels/matmul.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/addbmm_native.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/addmv_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/dot_native.h>
#include <ATen/ops/matmul_native.h>
#include <ATen/ops/mm_cpu_dispatch.h>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/heads_product.h"
#include "aten/certified/support/products.h"
#include "aten/certified/support/tensors.h"
#include "aten/device_work.h"

namespace isobit::aten {
namespace {

using at::Scalar;
using at::Tensor;

// Integers on the CPU; devices have no stock kernel for them.
bool by_stock(const Tensor& a) { return is_integral(a) && working_device() == nullptr; }

// A product whose type is not in its C++ type: operands of float32 or float64, the scalars not yet rounded.
struct Operand {
  const void* data = nullptr;
  std::int64_t batch_stride = 0, row_stride = 0, column_stride = 0;
};
struct MatmulProblem {
  at::ScalarType type = at::kFloat;
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  Operand a{}, b{}, addend{};
  double alpha = 1.0, beta = 1.0;
};

at::ScalarType type_of_product(const char* op, std::initializer_list<const Tensor*> tensors) {
  const at::ScalarType type = require_computed(op, tensors);
  if (type != at::kFloat) {
    require_ordered_products(op, "has products of float64",
                             "convert with .float(), or compute with products = \"ordered\"");
  }
  return type;
}

Operand matrix(const Tensor& t) { return {t.const_data_ptr(), 0, t.stride(0), t.stride(1)}; }
Operand matrices(const Tensor& t) { return {t.const_data_ptr(), t.stride(0), t.stride(1), t.stride(2)}; }

template <class T>
kernels::MatmulOperandOf<T> operand_of(const Operand& o) {
  return {static_cast<const T*>(o.data), o.batch_stride, o.row_stride, o.column_stride};
}

// The addend's strides broadcast to `sizes` (two or three dimensions).
Operand broadcast_addend(const char* op, const Tensor& t, at::IntArrayRef sizes) {
  const std::int64_t rank = static_cast<std::int64_t>(sizes.size());
  TORCH_CHECK(t.dim() <= rank, op, ": the addend has ", t.dim(), " dimensions, the result ", rank);
  std::int64_t strides[3] = {0, 0, 0};  // batch, row, column
  for (std::int64_t back = 1; back <= t.dim(); ++back) {
    const std::int64_t size = t.size(t.dim() - back), wanted = sizes[rank - back];
    TORCH_CHECK(size == wanted || size == 1, op, ": the addend of sizes ", t.sizes(), " does not broadcast to ", sizes);
    strides[3 - back] = size == 1 ? 0 : t.stride(t.dim() - back);
  }
  return {t.const_data_ptr(), strides[0], strides[1], strides[2]};
}

// C row-major, by the kernel. beta = 0: the addend is not read.
template <class T>
void multiply(const MatmulProblem& problem, T* c) {
  kernels::MatmulProblemOf<T> p;
  p.batch = problem.batch, p.m = problem.m, p.n = problem.n, p.k = problem.k;
  p.a = operand_of<T>(problem.a), p.b = operand_of<T>(problem.b);
  p.alpha = static_cast<T>(problem.alpha), p.beta = static_cast<T>(problem.beta);
  if (p.beta != T(0)) p.addend = operand_of<T>(problem.addend);
  p.c = c;
  p.c_batch_stride = p.m * p.n, p.c_row_stride = p.n, p.c_column_stride = 1;
  aten::multiply(p);
}

void set_addend(const char* op, MatmulProblem& problem, const Tensor& addend, at::IntArrayRef sizes, const Scalar& beta,
                const Scalar& alpha) {
  problem.alpha = alpha.toDouble();
  problem.beta = beta.toDouble();
  problem.addend = broadcast_addend(op, addend, sizes);
}

// ---- mm

MatmulProblem mm_problem(const char* op, const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, op, ": matrices expected, got ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.size(1) == b.size(0), op, ": cannot multiply ", a.sizes(), " by ", b.sizes());
  MatmulProblem problem;
  problem.type = type_of_product(op, {&a, &b});
  problem.m = a.size(0), problem.n = b.size(1), problem.k = a.size(1);
  problem.a = matrix(a), problem.b = matrix(b);
  return problem;
}

Tensor mm(const Tensor& a, const Tensor& b) {
  if (by_stock(a)) return at::cpu::mm(a, b);
  const MatmulProblem problem = mm_problem("aten::mm", a, b);
  return write_new({problem.m, problem.n}, problem.type, [&](auto* c) { multiply(problem, c); });
}
Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (by_stock(a)) return at::cpu::mm_out(out, a, b);
  const MatmulProblem problem = mm_problem("aten::mm.out", a, b);
  return write_out("aten::mm.out", out, {problem.m, problem.n}, problem.type, {&a, &b},
                   [&](auto* c) { multiply(problem, c); });
}

MatmulProblem addmm_problem(const char* op, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                            const Scalar& alpha) {
  MatmulProblem problem = mm_problem(op, a, b);
  require_computed(op, {&a, &self});
  set_addend(op, problem, self, {problem.m, problem.n}, beta, alpha);
  return problem;
}

Tensor addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  if (by_stock(a)) return at::cpu::addmm(self, a, b, beta, alpha);
  const MatmulProblem problem = addmm_problem("aten::addmm", self, a, b, beta, alpha);
  return write_new({problem.m, problem.n}, problem.type, [&](auto* c) { multiply(problem, c); });
}
Tensor& addmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  if (by_stock(a)) return at::cpu::addmm_out(out, self, a, b, beta, alpha);
  const MatmulProblem problem = addmm_problem("aten::addmm.out", self, a, b, beta, alpha);
  return write_out("aten::addmm.out", out, {problem.m, problem.n}, problem.type, {&self, &a, &b},
                   [&](auto* c) { multiply(problem, c); });
}
Tensor& addmm_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && self.sizes() == at::IntArrayRef({a.size(0), b.size(1)}),
              "aten::addmm_: self has sizes ", self.sizes(), ", not those of the product");
  return addmm_out(self, a, b, beta, alpha, self);
}

// ---- bmm

MatmulProblem bmm_problem(const char* op, const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3, op, ": batches of matrices expected, got ", a.sizes(), " and ", b.sizes());
  TORCH_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1), op, ": cannot multiply ", a.sizes(), " by ", b.sizes());
  MatmulProblem problem;
  problem.type = type_of_product(op, {&a, &b});
  problem.batch = a.size(0), problem.m = a.size(1), problem.n = b.size(2), problem.k = a.size(2);
  problem.a = matrices(a), problem.b = matrices(b);
  return problem;
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (by_stock(a)) return at::cpu::bmm(a, b);
  const MatmulProblem problem = bmm_problem("aten::bmm", a, b);
  return write_new({problem.batch, problem.m, problem.n}, problem.type, [&](auto* c) { multiply(problem, c); });
}
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (by_stock(a)) return at::cpu::bmm_out(out, a, b);
  const MatmulProblem problem = bmm_problem("aten::bmm.out", a, b);
  return write_out("aten::bmm.out", out, {problem.batch, problem.m, problem.n}, problem.type, {&a, &b},
                   [&](auto* c) { multiply(problem, c); });
}

// ---- matmul

// Of batches that agree, without the composition's nodes and copies (heads_product.h).
Tensor matmul(const Tensor& a, const Tensor& b) {
  if (takes_heads(a, b)) return heads_product(seen_here(a), seen_here(b), {});
  return at::native::matmul(a, b);
}

// ---- baddbmm

MatmulProblem baddbmm_problem(const char* op, const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                              const Scalar& alpha) {
  MatmulProblem problem = bmm_problem(op, a, b);
  require_computed(op, {&a, &self});
  set_addend(op, problem, self, {problem.batch, problem.m, problem.n}, beta, alpha);
  return problem;
}

Tensor baddbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  if (by_stock(a)) return at::cpu::baddbmm(self, a, b, beta, alpha);
  const MatmulProblem problem = baddbmm_problem("aten::baddbmm", self, a, b, beta, alpha);
  return write_new({problem.batch, problem.m, problem.n}, problem.type, [&](auto* c) { multiply(problem, c); });
}
Tensor& baddbmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                    Tensor& out) {
  if (by_stock(a)) return at::cpu::baddbmm_out(out, self, a, b, beta, alpha);
  const MatmulProblem problem = baddbmm_problem("aten::baddbmm.out", self, a, b, beta, alpha);
  return write_out("aten::baddbmm.out", out, {problem.batch, problem.m, problem.n}, problem.type, {&self, &a, &b},
                   [&](auto* c) { multiply(problem, c); });
}
Tensor& baddbmm_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && self.sizes() == at::IntArrayRef({a.size(0), a.size(1), b.size(2)}),
              "aten::baddbmm_: self has sizes ", self.sizes(), ", not those of the product");
  return baddbmm_out(self, a, b, beta, alpha, self);
}

// ---- addbmm: one matrix product whose reduced index is (batch, k)

struct Flattened {
  Tensor a, b;
};
Flattened flatten_batch(const char* op, const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(1), op,
              ": cannot multiply ", a.sizes(), " by ", b.sizes());
  const std::int64_t k = a.size(0) * a.size(2);
  return {a.permute({1, 0, 2}).reshape({a.size(1), k}), b.reshape({k, b.size(2)})};
}

Tensor addbmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  if (by_stock(a)) return at::native::addbmm(self, a, b, beta, alpha);
  const Flattened flat = flatten_batch("aten::addbmm", a, b);
  return addmm(self, flat.a, flat.b, beta, alpha);
}
Tensor& addbmm_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                   Tensor& out) {
  if (by_stock(a)) return at::native::addbmm_out(self, a, b, beta, alpha, out);
  const Flattened flat = flatten_batch("aten::addbmm.out", a, b);
  const MatmulProblem problem = addmm_problem("aten::addbmm.out", self, flat.a, flat.b, beta, alpha);
  return write_out("aten::addbmm.out", out, {problem.m, problem.n}, problem.type, {&self, &a, &b},
                   [&](auto* c) { multiply(problem, c); });
}
Tensor& addbmm_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  return addbmm_out(self, a, b, beta, alpha, self);
}

// ---- matrix-vector products and dots: matrices of one column, one row

MatmulProblem mv_problem(const char* op, const Tensor& a, const Tensor& x) {
  TORCH_CHECK(a.dim() == 2 && x.dim() == 1 && a.size(1) == x.size(0), op, ": cannot multiply ", a.sizes(), " by ",
              x.sizes());
  MatmulProblem problem;
  problem.type = type_of_product(op, {&a, &x});
  problem.m = a.size(0), problem.n = 1, problem.k = a.size(1);
  problem.a = matrix(a);
  problem.b = {x.const_data_ptr(), 0, x.stride(0), 0};
  return problem;
}

MatmulProblem addmv_problem(const char* op, const Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta,
                            const Scalar& alpha) {
  MatmulProblem problem = mv_problem(op, a, x);
  require_computed(op, {&a, &self});
  set_addend(op, problem, self, {1, problem.m}, beta, alpha);
  std::swap(problem.addend.row_stride, problem.addend.column_stride);  // broadcast as a row; used as a column
  return problem;
}

Tensor addmv(const Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta, const Scalar& alpha) {
  if (by_stock(a)) return at::cpu::addmv(self, a, x, beta, alpha);
  const MatmulProblem problem = addmv_problem("aten::addmv", self, a, x, beta, alpha);
  return write_new({problem.m}, problem.type, [&](auto* c) { multiply(problem, c); });
}
Tensor& addmv_out(const Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  if (by_stock(a)) return at::cpu::addmv_out(out, self, a, x, beta, alpha);
  const MatmulProblem problem = addmv_problem("aten::addmv.out", self, a, x, beta, alpha);
  return write_out("aten::addmv.out", out, {problem.m}, problem.type, {&self, &a, &x},
                   [&](auto* c) { multiply(problem, c); });
}
Tensor& addmv_(Tensor& self, const Tensor& a, const Tensor& x, const Scalar& beta, const Scalar& alpha) {
  TORCH_CHECK(a.dim() == 2 && self.sizes() == at::IntArrayRef({a.size(0)}), "aten::addmv_: self has sizes ",
              self.sizes(), ", not those of the product");
  return addmv_out(self, a, x, beta, alpha, self);
}

Tensor mv(const Tensor& a, const Tensor& x) {
  if (by_stock(a)) return at::cpu::mm(a, x.unsqueeze(1)).squeeze(1);
  const MatmulProblem problem = mv_problem("aten::mv", a, x);
  return write_new({problem.m}, problem.type, [&](auto* c) { multiply(problem, c); });
}
Tensor& mv_out(const Tensor& a, const Tensor& x, Tensor& out) {
  const MatmulProblem problem = mv_problem("aten::mv.out", a, x);
  return write_out("aten::mv.out", out, {problem.m}, problem.type, {&a, &x}, [&](auto* c) { multiply(problem, c); });
}

Tensor dot(const Tensor& a, const Tensor& b) {
  if (by_stock(a)) return at::native::dot(a, b);
  TORCH_CHECK(a.dim() == 1 && b.dim() == 1 && a.size(0) == b.size(0), "aten::dot: cannot multiply ", a.sizes(), " by ",
              b.sizes());
  MatmulProblem problem;
  problem.type = type_of_product("aten::dot", {&a, &b});
  problem.m = 1, problem.n = 1, problem.k = a.size(0);
  problem.a = {a.const_data_ptr(), 0, 0, a.stride(0)};
  problem.b = {b.const_data_ptr(), 0, b.stride(0), 0};
  return write_new({}, problem.type, [&](auto* c) { multiply(problem, c); });
}

// ---- addr: the outer product is a matrix product with k = 1

Tensor addr(const Tensor& self, const Tensor& x, const Tensor& y, const Scalar& beta, const Scalar& alpha) {
  TORCH_CHECK(x.dim() == 1 && y.dim() == 1, "aten::addr: vectors expected");
  require_computed("aten::addr", {&self, &x, &y});
  return addmm(self, x.unsqueeze(1), y.unsqueeze(0), beta, alpha);
}
Tensor& addr_out(const Tensor& self, const Tensor& x, const Tensor& y, const Scalar& beta, const Scalar& alpha,
                 Tensor& out) {
  TORCH_CHECK(x.dim() == 1 && y.dim() == 1, "aten::addr.out: vectors expected");
  require_computed("aten::addr.out", {&self, &x, &y});
  return addmm_out(self, x.unsqueeze(1), y.unsqueeze(0), beta, alpha, out);
}
Tensor& addr_(Tensor& self, const Tensor& x, const Tensor& y, const Scalar& beta, const Scalar& alpha) {
  return addr_out(self, x, y, beta, alpha, self);
}

}  // namespace

std::vector<Entry> matmul_operators() {
  constexpr std::string_view product = "3: leaves of 512 along k, pairwise tree";
  constexpr std::string_view with_addend = "3: beta * C + alpha * tree, products rounded";
  return {
      certify<mm>("aten::mm", "", product),
      certify<mm_out>("aten::mm", "out", product),
      certify<addmm>("aten::addmm", "", with_addend),
      certify<addmm_out>("aten::addmm", "out", with_addend),
      certify<addmm_>("aten::addmm_", "", with_addend),
      certify<bmm>("aten::bmm", "", product),
      certify_layer<matmul>("aten::matmul", "", "3: torch's composition; of batches in few nodes"),
      certify<bmm_out>("aten::bmm", "out", product),
      certify<baddbmm>("aten::baddbmm", "", with_addend),
      certify<baddbmm_out>("aten::baddbmm", "out", with_addend),
      certify<baddbmm_>("aten::baddbmm_", "", with_addend),
      certify<addbmm>("aten::addbmm", "", "3: one product, k runs over (batch, k)"),
      certify<addbmm_out>("aten::addbmm", "out", "3: one product, k runs over (batch, k)"),
      certify<addbmm_>("aten::addbmm_", "", "3: one product, k runs over (batch, k)"),
      certify<mv>("aten::mv", "", product),
      certify<mv_out>("aten::mv", "out", product),
      certify<addmv>("aten::addmv", "", with_addend),
      certify<addmv_out>("aten::addmv", "out", with_addend),
      certify<addmv_>("aten::addmv_", "", with_addend),
      certify<dot>("aten::dot", "", product),
      certify<dot>("aten::vdot", "", product),
      certify<addr>("aten::addr", "", with_addend),
      certify<addr_out>("aten::addr", "out", with_addend),
      certify<addr_>("aten::addr_", "", with_addend),
  };
}

}  // namespace isobit::aten
