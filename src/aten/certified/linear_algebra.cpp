// Cholesky's factorisation, LU with partial pivoting, and what they solve (contract, section 14): binary64 inside,
// results of float32 rounded once, of float64 as they are. On devices by CPU fallback.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_det.h>
#include <ATen/ops/_linalg_slogdet.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "contract/functions_wide.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/linear_solvers.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

using at::Tensor;

using Doubles = std::vector<double>;

// Memory for a call: of the thread's own scratch, whose pages it has already; large pieces are given back.
class Scratch {
 public:
  double* doubles(std::int64_t count) {
    constexpr std::int64_t kKept = 1 << 20;
    if (count <= kKept) return static_cast<double*>(workspace_.bytes(sizeof(double) * static_cast<std::size_t>(count)));
    return large_.emplace_back(static_cast<std::size_t>(count)).data();
  }

 private:
  kernels::Workspace workspace_;
  std::vector<Doubles> large_;  // moved where they lie when there are more; their elements stay
};

// A batch of matrices of float32 or float64: element (b, i, j) at b * rows * columns + i * columns + j.
struct Matrices {
  Tensor rows_first;
  at::ScalarType type;
  std::int64_t count = 1, rows, columns;
  Matrices(const char* op, const Tensor& given) : type(require_computed(op, given.scalar_type())) {
    TORCH_CHECK(given.dim() >= 2, op, ": The input tensor must have at least 2 dimensions, got ", given.sizes());
    rows_first = contiguous(given);
    rows = given.size(-2), columns = given.size(-1);
    for (const std::int64_t size : given.sizes().slice(0, static_cast<std::size_t>(given.dim() - 2))) count *= size;
  }
  // Column after column, or row after row (the transposed matrix's columns), which copies in order.
  void widen(std::int64_t b, bool by_rows, double* out) const {
    const std::int64_t offset = b * rows * columns;
    if (type == at::kDouble) {
      copy_wide(rows_first.const_data_ptr<double>() + offset, by_rows, out);
    } else {
      copy_wide(rows_first.const_data_ptr<float>() + offset, by_rows, out);
    }
  }
  template <class T>
  void copy_wide(const T* from, bool by_rows, double* out) const {
    if (by_rows) {
      for (std::int64_t i = 0; i < rows * columns; ++i) out[i] = static_cast<double>(from[i]);
      return;
    }
    constexpr std::int64_t kLine = 8;  // of a column is written at a time
    for (std::int64_t i = 0; i < rows; i += kLine) {
      const std::int64_t some = std::min(kLine, rows - i);
      for (std::int64_t j = 0; j < columns; ++j) {
        for (std::int64_t r = 0; r < some; ++r)
          out[j * rows + i + r] = static_cast<double>(from[(i + r) * columns + j]);
      }
    }
  }
  [[nodiscard]] Doubles wide(std::int64_t b) const {
    Doubles out(static_cast<std::size_t>(rows * columns));
    widen(b, /*by_rows=*/false, out.data());
    return out;
  }
  // In scratch memory, whose pages the thread has already.
  [[nodiscard]] double* wide(Scratch& scratch, std::int64_t b, bool by_rows) const {
    double* const out = scratch.doubles(rows * columns);
    widen(b, by_rows, out);
    return out;
  }
};
void require_square(const char* op, const Tensor& a) {
  TORCH_CHECK(a.dim() >= 2 && a.size(-1) == a.size(-2), op, ": A must be batches of square matrices, but they are ",
              a.dim() < 2 ? 0 : a.size(-2), " by ", a.dim() < 2 ? 0 : a.size(-1), " matrices");
}

at::DimVector batch_of(const Tensor& a) {
  return at::DimVector(a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2)));
}
at::DimVector with(at::DimVector sizes, std::initializer_list<std::int64_t> more) {
  for (const std::int64_t size : more) sizes.push_back(size);
  return sizes;
}
// Column after column, as PyTorch's factors lie.
Tensor new_factors(at::DimVector batch, std::int64_t rows, std::int64_t columns, at::ScalarType type) {
  return new_tensor(with(std::move(batch), {columns, rows}), type).mT();
}
// A result as float32 or float64, number b of those of `count` elements: rounded once, or as it is but for a zero's
// sign. Results are pointers, so that threads need no tensor.
struct Results {
  float* narrow = nullptr;
  double* wide = nullptr;
  explicit Results(const Tensor& tensor) {
    if (is_wide(tensor)) {
      wide = tensor.mutable_data_ptr<double>();
    } else {
      narrow = tensor.mutable_data_ptr<float>();
    }
  }
  void write(std::int64_t b, const double* from, std::int64_t count) const {
    if (wide != nullptr) {
      for (std::int64_t i = 0; i < count; ++i) wide[b * count + i] = from[i] + 0.0;
    } else {
      for (std::int64_t i = 0; i < count; ++i) narrow[b * count + i] = contract::rounded(from[i]);
    }
  }
};
double* identity(Scratch& scratch, std::int64_t n) {
  double* const x = scratch.doubles(n * n);
  std::fill_n(x, n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i) x[i * n + i] = 1.0;
  return x;
}

// ---- Cholesky

// L [n, n] of every matrix, column after column; the triangle that is not L's is +0.
template <class Use>
void each_cholesky(const Matrices& a, bool upper, std::int32_t* info, Use&& use) {
  const std::int64_t n = a.rows;
  kernels::parallel_for(0, a.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      Scratch scratch;
      double* const l =
          a.wide(scratch, b, /*by_rows=*/upper);  // of the upper triangle's transpose the lower one is read
      info[b] = kernels::factor_cholesky(l, n);
      for (std::int64_t j = 1; j < n; ++j) std::fill_n(l + j * n, j, 0.0);
      use(b, l);
    }
  });
}
std::tuple<Tensor, Tensor> cholesky_ex(const Tensor& given, bool upper, bool check_errors) {
  constexpr const char* op = "aten::linalg_cholesky_ex";
  require_square("linalg.cholesky", given);
  const Matrices a(op, given);
  const Tensor factors = new_tensor(given.sizes(), a.type), info = new_tensor(batch_of(given), at::kInt);
  const Results out(factors);
  each_cholesky(a, upper, info.mutable_data_ptr<std::int32_t>(),
                [&](std::int64_t b, const double* l) { out.write(b, l, a.rows * a.rows); });
  if (check_errors) at::_linalg_check_errors(info, "linalg.cholesky_ex", given.dim() == 2);
  return {upper ? factors : factors.mT(), info};  // L's columns are U's rows
}
std::tuple<Tensor&, Tensor&> cholesky_ex_out(const Tensor& a, bool upper, bool check_errors, Tensor& l, Tensor& info) {
  const auto [factor, result] = cholesky_ex(a, upper, check_errors);
  float_out("aten::linalg_cholesky_ex", factor, l), copy_out(info, result);
  return {l, info};
}
Tensor factor_of(const Tensor& a, bool upper) {
  const auto [factor, info] = cholesky_ex(a, upper, false);
  at::_linalg_check_errors(info, "cholesky", a.dim() == 2);
  return factor;
}
Tensor& cholesky_out(const Tensor& a, bool upper, Tensor& out) {
  return float_out("aten::cholesky", factor_of(a, upper), out);
}

// Triangles of a batch of square matrices, read where they lie if that is row after row or column after column; the
// other triangle's elements are not read.
struct Triangles {
  Tensor rows_first;  // the matrices, or their transposes
  at::ScalarType type;
  bool transposes, upper;
  std::int64_t n, count;
  Triangles(const char* op, const Tensor& given, bool upper_given)
      : type(require_computed(op, given.scalar_type())),
        transposes(!given.is_contiguous() && given.mT().is_contiguous()),
        upper(upper_given),
        n(given.size(-1)) {
    rows_first = transposes ? given.mT() : contiguous(given);
    count = c10::multiply_integers(given.sizes().slice(0, static_cast<std::size_t>(given.dim() - 2)));
  }
  // Number b in binary64; `turned`: its transpose is meant.
  [[nodiscard]] kernels::Triangle wide(Scratch& scratch, std::int64_t b, bool turned, bool unit = false) const {
    // What lies row after row is to a kernel the transpose.
    kernels::Triangle t{
        .n = n, .upper = transposes ? upper : !upper, .transposed = transposes ? turned : !turned, .unit = unit};
    if (type == at::kDouble) {
      t.a = rows_first.const_data_ptr<double>() + b * n * n;
      return t;
    }
    const float* const from = rows_first.const_data_ptr<float>() + b * n * n;
    double* const to = scratch.doubles(n * n);
    for (std::int64_t r = 0; r < n; ++r) {
      const std::int64_t first = t.upper ? 0 : r, end = t.upper ? r + 1 : n;
      for (std::int64_t i = r * n + first; i < r * n + end; ++i) to[i] = static_cast<double>(from[i]);
    }
    t.a = to;
    return t;
  }
};

// L L^T y = x, or U^T U y = x.
void solve_with_factor(const Triangles& factors, std::int64_t b, double* x, std::int64_t columns) {
  Scratch scratch;
  kernels::Triangle t = factors.wide(scratch, b, /*turned=*/factors.upper);
  kernels::solve_triangle(t, x, columns);
  t.transposed = !t.transposed;
  kernels::solve_triangle(t, x, columns);
}
Tensor cholesky_solve_helper(const Tensor& b, const Tensor& factor, bool upper) {
  require_square("cholesky_solve", factor);
  TORCH_CHECK(b.dim() == factor.dim() && batch_of(b) == batch_of(factor) && b.size(-2) == factor.size(-1),
              "cholesky_solve: right-hand sides of ", b.sizes(), " do not fit a factor of ", factor.sizes());
  const Tensor y = new_tensor(b.sizes(), require_computed("aten::cholesky_solve", {&b, &factor}));
  const Matrices right("aten::cholesky_solve", b);
  const Triangles factors("aten::cholesky_solve", factor, upper);
  const Results out(y);
  kernels::parallel_for(0, factors.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      Scratch scratch;
      double* const x = right.wide(scratch, k, /*by_rows=*/true);
      solve_with_factor(factors, k, x, right.columns);
      out.write(k, x, right.rows * right.columns);
    }
  });
  return y;
}
Tensor inverse_by_factor(const Tensor& factor, bool upper) {
  require_square("cholesky_inverse", factor);
  const Triangles factors("aten::cholesky_inverse", factor, upper);
  const std::int64_t n = factors.n;
  const Tensor y = new_tensor(factor.sizes(), factors.type);
  const Results out(y);
  kernels::parallel_for(0, factors.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      Scratch scratch;
      double* const x = identity(scratch, n);
      solve_with_factor(factors, k, x, n);
      out.write(k, x, n * n);
    }
  });
  return y;
}
Tensor& cholesky_inverse_out(const Tensor& factor, bool upper, Tensor& out) {
  return float_out("aten::cholesky_inverse", inverse_by_factor(factor, upper), out);
}

// ---- triangles

// For each matrix of the broadcast batch its place in t's own.
Tensor places_in_batch(const Tensor& t, at::IntArrayRef batch) {
  const at::DimVector own = batch_of(t);
  return at::arange(c10::multiply_integers(own), at::kLong).reshape(own).expand(batch).contiguous();
}
struct Broadcast {
  at::DimVector batch;
  Tensor of_a, of_b;  // undefined: the batches are the same
  std::int64_t count;
  Broadcast(const Tensor& a, const Tensor& b) : batch(at::infer_size_dimvector(batch_of(a), batch_of(b))) {
    count = c10::multiply_integers(batch);
    if (batch_of(a) != batch_of(b)) of_a = places_in_batch(a, batch), of_b = places_in_batch(b, batch);
  }
};
// solve(place in a, x [n, columns]) for every right-hand side; `left` is false where the unknown stands before a.
template <class Solve>
Tensor solved(const Broadcast& at, const Matrices& b, bool left, Solve&& solve) {
  const std::int64_t n = left ? b.rows : b.columns, columns = left ? b.columns : b.rows;
  const Tensor y = new_tensor(with(at.batch, {n, columns}), b.type);
  const Results out(y);
  const bool alike = !at.of_a.defined();
  const std::int64_t* const of_a = alike ? nullptr : at.of_a.const_data_ptr<std::int64_t>();
  const std::int64_t* const of_b = alike ? nullptr : at.of_b.const_data_ptr<std::int64_t>();
  kernels::parallel_for(0, at.count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      Scratch scratch;
      double* const x = b.wide(scratch, alike ? k : of_b[k], /*by_rows=*/left);
      solve(alike ? k : of_a[k], x, columns);
      out.write(k, x, n * columns);
    }
  });
  return left ? y : y.mT();
}
Tensor solve_triangular(const Tensor& given, const Tensor& right, bool upper, bool left, bool unit) {
  constexpr const char* op = "linalg.solve_triangular";
  require_square(op, given);
  require_computed("aten::linalg_solve_triangular", {&given, &right});
  const Matrices b("aten::linalg_solve_triangular", right);
  const Triangles a("aten::linalg_solve_triangular", given, upper);
  TORCH_CHECK((left ? b.rows : b.columns) == a.n, op, ": Incompatible shapes of A and B for the equation ",
              left ? "AX = B" : "XA = B", " (", a.n, "x", a.n, " and ", b.rows, "x", b.columns, ")");
  return solved(Broadcast(given, right), b, left, [&](std::int64_t place, double* x, std::int64_t columns) {
    Scratch scratch;
    kernels::solve_triangle(a.wide(scratch, place, /*turned=*/!left, unit), x, columns);
  });
}
Tensor& solve_triangular_out(const Tensor& a, const Tensor& b, bool upper, bool left, bool unit, Tensor& out) {
  return float_out("aten::linalg_solve_triangular", solve_triangular(a, b, upper, left, unit), out);
}
std::tuple<Tensor, Tensor> solved_triangular(const Tensor& b, const Tensor& a, bool upper, bool transpose, bool unit) {
  const Tensor matrix = transpose ? a.mT() : a;
  return {solve_triangular(matrix, b, upper != transpose, true, unit), a.clone()};
}
std::tuple<Tensor&, Tensor&> triangular_solve_out(const Tensor& b, const Tensor& a, bool upper, bool transpose,
                                                  bool unit, Tensor& x, Tensor& m) {
  const auto [solution, copy] = solved_triangular(b, a, upper, transpose, unit);
  return {float_out("aten::triangular_solve", solution, x), float_out("aten::triangular_solve", copy, m)};
}

// ---- LU

// Factors of every matrix, in binary64 and as PyTorch has them.
struct LuFactors {
  std::vector<Doubles> wide;
  Tensor lu, pivots, info;
  LuFactors(const char* op, const Tensor& given) {
    const Matrices a(op, given);
    const std::int64_t steps = std::min(a.rows, a.columns);
    wide.resize(static_cast<std::size_t>(a.count));
    lu = new_factors(batch_of(given), a.rows, a.columns, a.type);
    pivots = new_tensor(with(batch_of(given), {steps}), at::kInt);
    info = new_tensor(batch_of(given), at::kInt);
    const Results out(lu);
    auto *exchanged = pivots.mutable_data_ptr<std::int32_t>(), *failed = info.mutable_data_ptr<std::int32_t>();
    kernels::parallel_for(0, a.count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        Doubles& factors = wide[static_cast<std::size_t>(b)];
        factors = a.wide(b);
        failed[b] = kernels::factor_lu(factors.data(), a.rows, a.columns, exchanged + b * steps);
        out.write(b, factors.data(), a.rows * a.columns);
      }
    });
  }
  void solve(std::int64_t place, bool transposed, double* x, std::int64_t columns) const {
    const std::int64_t n = lu.size(-1);
    kernels::solve_lu(wide[static_cast<std::size_t>(place)].data(), pivots.const_data_ptr<std::int32_t>() + place * n,
                      n, transposed, x, columns);
  }
};
std::tuple<Tensor, Tensor, Tensor> lu_factor_ex(const Tensor& a, bool pivot, bool check_errors) {
  TORCH_CHECK(pivot, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
  const LuFactors f("aten::linalg_lu_factor_ex", a);
  if (check_errors) at::_linalg_check_errors(f.info, "torch.linalg.lu_factor_ex", a.dim() == 2);
  return {f.lu, f.pivots, f.info};
}
std::tuple<Tensor&, Tensor&, Tensor&> lu_factor_ex_out(const Tensor& a, bool pivot, bool check_errors, Tensor& lu,
                                                       Tensor& pivots, Tensor& info) {
  const auto [new_lu, new_pivots, new_info] = lu_factor_ex(a, pivot, check_errors);
  float_out("aten::linalg_lu_factor_ex", new_lu, lu), copy_out(pivots, new_pivots), copy_out(info, new_info);
  return {lu, pivots, info};
}

// B of one dimension less than A stands for one column.
bool is_vector(const Tensor& a, const Tensor& b) {
  return b.dim() == 1 || (a.dim() - 1 == b.dim() && b.sizes() == a.sizes().slice(0, static_cast<std::size_t>(b.dim())));
}
std::tuple<Tensor, Tensor, Tensor, Tensor> solve_ex(const Tensor& a, const Tensor& given, bool left,
                                                    bool check_errors) {
  constexpr const char* op = "linalg.solve";
  require_square(op, a);
  const bool vector = is_vector(a, given);
  TORCH_CHECK(left || !vector, op, ": Vector broadcasting of the left hand side is not supported for left=False");
  const Tensor right = vector ? given.unsqueeze(-1) : given;
  require_computed("aten::_linalg_solve_ex", {&a, &given});
  const Matrices b("aten::_linalg_solve_ex", right);
  TORCH_CHECK((left ? b.rows : b.columns) == a.size(-1), op, ": Incompatible shapes of A and B for the equation ",
              left ? "AX = B" : "XA = B", " (", a.size(-2), "x", a.size(-1), " and ", b.rows, "x", b.columns, ")");
  const LuFactors f("aten::_linalg_solve_ex", a);
  if (check_errors) at::_linalg_check_errors(f.info, "torch.linalg.solve_ex", a.dim() == 2);
  const Tensor y = solved(Broadcast(a, right), b, left, [&](std::int64_t place, double* x, std::int64_t columns) {
    f.solve(place, /*transposed=*/!left, x, columns);
  });
  return {vector ? y.squeeze(-1) : y, f.lu, f.pivots, f.info};
}
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> solve_ex_out(const Tensor& a, const Tensor& b, bool left,
                                                            bool check_errors, Tensor& y, Tensor& lu, Tensor& pivots,
                                                            Tensor& info) {
  const auto [new_y, new_lu, new_pivots, new_info] = solve_ex(a, b, left, check_errors);
  float_out("aten::_linalg_solve_ex", new_y, y), float_out("aten::_linalg_solve_ex", new_lu, lu);
  copy_out(pivots, new_pivots), copy_out(info, new_info);
  return {y, lu, pivots, info};
}
// From factors as they were rounded.
Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& right, bool left, bool adjoint) {
  constexpr const char* op = "linalg.lu_solve";
  require_square(op, lu);
  require_computed("aten::linalg_lu_solve", {&lu, &right});
  const Matrices factors("aten::linalg_lu_solve", lu), b("aten::linalg_lu_solve", right);
  const std::int64_t n = factors.rows;
  TORCH_CHECK(pivots.scalar_type() == at::kInt, op, ": pivots should be a Tensor of scalar type torch.int32");
  TORCH_CHECK(pivots.sizes() == lu.sizes().slice(0, static_cast<std::size_t>(lu.dim() - 1)), op,
              ": Number of pivots per batch should be same as the dimension of the matrix");
  TORCH_CHECK((left ? b.rows : b.columns) == n, op, ": Incompatible shapes of A and B");
  const Tensor exchanged = contiguous(pivots);
  TORCH_CHECK(exchanged.ge(1).logical_and_(exchanged.le(n)).all().item<bool>(), op, ": pivots must be 1 .. ", n);
  return solved(Broadcast(lu, right), b, left, [&](std::int64_t place, double* x, std::int64_t columns) {
    Scratch scratch;
    kernels::solve_lu(factors.wide(scratch, place, /*by_rows=*/false),
                      exchanged.const_data_ptr<std::int32_t>() + place * n, n, left == adjoint, x, columns);
  });
}
Tensor& lu_solve_out(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool adjoint, Tensor& out) {
  return float_out("aten::linalg_lu_solve", lu_solve(lu, pivots, b, left, adjoint), out);
}

std::tuple<Tensor, Tensor> inv_ex(const Tensor& a, bool check_errors) {
  require_square("linalg.inv", a);
  const LuFactors f("aten::linalg_inv_ex", a);
  if (check_errors) at::_linalg_check_errors(f.info, "linalg.inv_ex", a.dim() == 2);
  const std::int64_t n = a.size(-1), count = f.info.numel();
  const Tensor y = new_tensor(a.sizes(), f.lu.scalar_type());
  const Results out(y);
  kernels::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      Scratch scratch;
      double* const x = identity(scratch, n);
      f.solve(k, false, x, n);
      out.write(k, x, n * n);
    }
  });
  return {y, f.info};
}
std::tuple<Tensor&, Tensor&> inv_ex_out(const Tensor& a, bool check_errors, Tensor& inverse, Tensor& info) {
  const auto [new_inverse, new_info] = inv_ex(a, check_errors);
  float_out("aten::linalg_inv_ex", new_inverse, inverse), copy_out(info, new_info);
  return {inverse, info};
}

// Of the transposed matrix's factors. PyTorch's gradient expects them where a is contiguous, and a's own elsewhere.
struct Determinants {
  Tensor product, sign, logarithm, lu, pivots;
  Determinants(const char* op, const Tensor& a)
      : product(new_tensor(batch_of(a), require_computed(op, a.scalar_type()))),
        sign(new_tensor(batch_of(a), a.scalar_type())),
        logarithm(new_tensor(batch_of(a), a.scalar_type())) {
    const LuFactors f(op, a.mT());
    const std::int64_t n = a.size(-1);
    const auto* exchanged = f.pivots.const_data_ptr<std::int32_t>();
    for (std::int64_t b = 0; b < product.numel(); ++b) {
      const auto d = kernels::determinant_of(f.wide[static_cast<std::size_t>(b)].data(), exchanged + b * n, n);
      Results(product).write(b, &d.product, 1);
      Results(sign).write(b, &d.sign, 1);
      Results(logarithm).write(b, &d.logarithm, 1);
    }
    const LuFactors given = a.is_contiguous() ? f : LuFactors(op, a);
    lu = given.lu, pivots = given.pivots;
  }
};
// Before autograd: a contiguous matrix, so that no gradient depends on strides.
Tensor determinant_layer(const Tensor& a) { return std::get<0>(at::_linalg_det(a.contiguous())); }
std::tuple<Tensor, Tensor> log_determinant_layer(const Tensor& a) {
  const auto [sign, logarithm, lu, pivots] = at::_linalg_slogdet(a.contiguous());
  return {sign, logarithm};
}
std::tuple<Tensor, Tensor, Tensor> determinant(const Tensor& a) {
  require_square("linalg.det", a);
  const Determinants d("aten::_linalg_det", a);
  return {d.product, d.lu, d.pivots};
}
std::tuple<Tensor&, Tensor&, Tensor&> det_out(const Tensor& a, Tensor& result, Tensor& lu, Tensor& pivots) {
  const auto [new_result, new_lu, new_pivots] = determinant(a);
  float_out("aten::_linalg_det", new_result, result), float_out("aten::_linalg_det", new_lu, lu);
  copy_out(pivots, new_pivots);
  return {result, lu, pivots};
}
std::tuple<Tensor, Tensor, Tensor, Tensor> log_determinant(const Tensor& a) {
  require_square("linalg.slogdet", a);
  const Determinants d("aten::_linalg_slogdet", a);
  return {d.sign, d.logarithm, d.lu, d.pivots};
}
std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> slogdet_out(const Tensor& a, Tensor& sign, Tensor& logarithm, Tensor& lu,
                                                           Tensor& pivots) {
  const auto [new_sign, new_logarithm, new_lu, new_pivots] = log_determinant(a);
  float_out("aten::_linalg_slogdet", new_sign, sign), float_out("aten::_linalg_slogdet", new_logarithm, logarithm);
  float_out("aten::_linalg_slogdet", new_lu, lu), copy_out(pivots, new_pivots);
  return {sign, logarithm, lu, pivots};
}

}  // namespace

std::vector<Entry> linear_algebra_operators() {
  constexpr std::string_view cholesky_rule = "14: Cholesky, column by column in binary64, rounded once to float32";
  constexpr std::string_view substitution = "14: substitution in binary64, rounded once to float32";
  constexpr std::string_view lu_rule = "14: LU with partial pivoting in binary64, rounded once to float32";
  return {
      certify_by_host<cholesky_ex>("aten::linalg_cholesky_ex", "", cholesky_rule),
      certify_by_host<cholesky_ex_out>("aten::linalg_cholesky_ex", "L", cholesky_rule),
      certify_by_host<factor_of>("aten::cholesky", "", cholesky_rule),
      certify_by_host<cholesky_out>("aten::cholesky", "out", cholesky_rule),
      certify_by_host<cholesky_solve_helper>("aten::_cholesky_solve_helper", "", substitution),
      certify_by_host<inverse_by_factor>("aten::cholesky_inverse", "", substitution),
      certify_by_host<cholesky_inverse_out>("aten::cholesky_inverse", "out", substitution),
      certify_by_host<solve_triangular>("aten::linalg_solve_triangular", "", substitution),
      certify_by_host<solve_triangular_out>("aten::linalg_solve_triangular", "out", substitution),
      certify_by_host<solved_triangular>("aten::triangular_solve", "", substitution),
      certify_by_host<triangular_solve_out>("aten::triangular_solve", "X", substitution),
      certify_by_host<lu_factor_ex>("aten::linalg_lu_factor_ex", "", lu_rule),
      certify_by_host<lu_factor_ex_out>("aten::linalg_lu_factor_ex", "out", lu_rule),
      certify_by_host<solve_ex>("aten::_linalg_solve_ex", "", lu_rule),
      certify_by_host<solve_ex_out>("aten::_linalg_solve_ex", "result", lu_rule),
      certify_by_host<lu_solve>("aten::linalg_lu_solve", "", substitution),
      certify_by_host<lu_solve_out>("aten::linalg_lu_solve", "out", substitution),
      certify_by_host<inv_ex>("aten::linalg_inv_ex", "", lu_rule),
      certify_by_host<inv_ex_out>("aten::linalg_inv_ex", "inverse", lu_rule),
      certify_layer<determinant_layer>("aten::linalg_det", "", lu_rule),
      certify_layer<log_determinant_layer>("aten::linalg_slogdet", "", lu_rule),
      certify_by_host<determinant>("aten::_linalg_det", "", lu_rule),
      certify_by_host<det_out>("aten::_linalg_det", "result", lu_rule),
      certify_by_host<log_determinant>("aten::_linalg_slogdet", "", lu_rule),
      certify_by_host<slogdet_out>("aten::_linalg_slogdet", "sign", lu_rule),
  };
}

}  // namespace isobit::aten
