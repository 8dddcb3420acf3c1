// QR over registers of columns: while a row loses what one reflection takes from it, it is added to the next one's
// product, so that a panel is read once for each reflection, not twice.
#include "kernels/cpu/householder_panels.h"

#include "kernels/cpu/vector/wide_memory.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr int kRegisters = 4;

// A row of a panel, one value for each column; by reference, in functions that are inlined, so that it stays in
// registers.
struct Row {
  WideDouble v[kRegisters];
};
ISOBIT_INLINE void read_row(const double* p, Row& row) {
#pragma GCC unroll 4
  for (std::int64_t r = 0; r < kRegisters; ++r) row.v[r] = wide_read(p + r * kWideLanes);
}

struct LanePanels {
  static constexpr std::int64_t kColumns = std::int64_t{kRegisters} * kWideLanes;

  // Of rows [begin, end): row = row - v[i] * w, where kSubtracts; then product = product + u[i] * row, where kAdds.
  template <bool kSubtracts, bool kAdds>
  ISOBIT_INLINE static void take_rows(double* panel, std::int64_t begin, std::int64_t end, const double* v,
                                      const Row& w, const double* u, Row& product) {
    for (std::int64_t i = begin; i < end; ++i) {
      double* const row = panel + i * kColumns;
      const WideDouble minus = kSubtracts ? wide_double(v[i]) : WideDouble{},
                       plus = kAdds ? wide_double(u[i]) : WideDouble{};
#pragma GCC unroll 4
      for (std::int64_t r = 0; r < kRegisters; ++r) {
        WideDouble x = wide_read(row + r * kWideLanes);
        if (kSubtracts) {
          x = x - minus * w.v[r];
          wide_write(row + r * kWideLanes, x);
        }
        if (kAdds) product.v[r] = product.v[r] + plus * x;
      }
    }
  }
  // The row where v has its 1.
  ISOBIT_INLINE static void take_head(double* head, const Row& w) {
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kRegisters; ++r)
      wide_write(head + r * kWideLanes, wide_read(head + r * kWideLanes) - w.v[r]);
  }

  // tau times H_j's product with all columns.
  ISOBIT_INLINE static void multiply(const Reflections& h, std::int64_t j, double* panel, Row& w) {
    read_row(panel + j * kColumns, w);
    take_rows<false, true>(panel, j + 1, h.m, nullptr, w, h.vector(j), w);
    scale(h.factor(j), w);
  }
  ISOBIT_INLINE static void scale(double tau, Row& w) {
#pragma GCC unroll 4
    for (std::int64_t r = 0; r < kRegisters; ++r) w.v[r] = wide_double(tau) * w.v[r];
  }
  static void subtract(const Reflections& h, std::int64_t j, const Row& w, double* panel) {
    take_head(panel + j * kColumns, w);
    Row none;
    take_rows<true, false>(panel, j + 1, h.m, h.vector(j), w, nullptr, none);
  }
  // What H_j takes (w), and tau times H_next's product with what is left, which is then w.
  static void subtract_and_multiply(const Reflections& h, std::int64_t j, std::int64_t next, double* panel,
                                    Row& given) {
    const double *const v = h.vector(j), *const u = h.vector(next);
    const Row w = given;
    Row product;
    if (next < j) {
      read_row(panel + next * kColumns, product);
      take_rows<false, true>(panel, next + 1, j, nullptr, w, u, product);
      take_head(panel + j * kColumns, w);
      take_rows<false, true>(panel, j, j + 1, nullptr, w, u, product);
      take_rows<true, true>(panel, j + 1, h.m, v, w, u, product);
    } else {
      take_head(panel + j * kColumns, w);
      take_rows<true, false>(panel, j + 1, next + 1, v, w, u, product);
      read_row(panel + next * kColumns, product);
      take_rows<true, true>(panel, next + 1, h.m, v, w, u, product);
    }
    scale(h.factor(next), product);
    given = product;
  }

  static void reflect_from(const Reflections& h, std::int64_t j, double* panel, std::int64_t first) {
    if (h.factor(j) == 0.0) return;
    Row w;
    multiply(h, j, panel, w);
    if (first == 0) return subtract(h, j, w, panel);
    double taken[kColumns];  // columns before `first` stay
    for (std::int64_t r = 0; r < kRegisters; ++r) wide_write(taken + r * kWideLanes, w.v[r]);
    const double* const v = h.vector(j);
    for (std::int64_t i = j; i < h.m; ++i) {
      double* const row = panel + i * kColumns;
      const double factor = i == j ? 1.0 : v[i];
      for (std::int64_t c = first; c < kColumns; ++c) row[c] = row[c] - factor * taken[c];
    }
  }
  // Reflections j, j + step, ... before end, those that reflect.
  static void reflect_in_turn(const Reflections& h, std::int64_t j, std::int64_t end, std::int64_t step,
                              double* panel) {
    const auto one_from = [&](std::int64_t at) {
      while (at != end && h.factor(at) == 0.0) at += step;
      return at;
    };
    j = one_from(j);
    if (j == end) return;
    Row w;
    multiply(h, j, panel, w);
    for (std::int64_t next; (next = one_from(j + step)) != end; j = next) subtract_and_multiply(h, j, next, panel, w);
    subtract(h, j, w, panel);
  }
  static void reflect_ascending(const Reflections& h, std::int64_t first, std::int64_t end, double* panel) {
    reflect_in_turn(h, first, end, 1, panel);
  }
  static void reflect_descending(const Reflections& h, std::int64_t end, double* panel) {
    reflect_in_turn(h, end - 1, -1, -1, panel);
  }
};

void householder_qr(const QrProblem& problem) { HouseholderPanels<LanePanels>(problem).compute(); }

}  // namespace

void fill_householder(HostTable& t) { t.householder_qr = householder_qr; }

}  // namespace isobit::kernels::ISOBIT_ISA
