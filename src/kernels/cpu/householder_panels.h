// The QR factorisation over panels of columns, for cpu/reference and cpu/vector: each includes it into a namespace of
// its own and says how a reflection meets a panel. Of each column the order of operations is the contract's (section
// 13); which columns share a panel or a thread does not matter.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/householder.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

struct Reflections {
  std::int64_t m, k;
  std::vector<double> v;    // [k, m]: row j holds v_j, its entries from j + 1 on (entry j is 1)
  std::vector<double> tau;  // [k]: 0: none

  Reflections(std::int64_t rows, std::int64_t count)
      : m(rows), k(count), v(static_cast<std::size_t>(rows * count)), tau(static_cast<std::size_t>(count)) {}
  double* vector(std::int64_t j) { return v.data() + j * m; }
  [[nodiscard]] const double* vector(std::int64_t j) const { return v.data() + j * m; }
  [[nodiscard]] double factor(std::int64_t j) const { return tau[static_cast<std::size_t>(j)]; }
};

// Panels has
//   kColumns                                  of a panel [m, kColumns]
//   reflect_from(h, j, panel, c)              columns c and later become those of H_j panel
//   reflect_ascending(h, first, end, panel)   all columns those of H_(end - 1) ... H_first panel
//   reflect_descending(h, end, panel)         all columns those of H_0 ... H_(end - 1) panel
template <class Panels>
class HouseholderPanels {
 public:
  explicit HouseholderPanels(const QrProblem& problem) : p_(problem), h_(p_.m, std::min(p_.m, p_.n)) {}
  void compute() {
    factor();
    if (p_.q_columns > 0) form_q();
  }

 private:
  static constexpr std::int64_t kPanel = Panels::kColumns;

  static std::int64_t panels_of(std::int64_t columns) { return (columns + kPanel - 1) / kPanel; }
  [[nodiscard]] std::int64_t smallest_share() const { return 1 + 256 / (p_.m + 1); }

  // A power of two that brings the largest entry of a column near 1 where squares would leave binary64's range; else 1.
  // It changes no bit of what does not leave it.
  static double scale_of(const double* panel, std::int64_t j, std::int64_t m, std::int64_t c) {
    double largest = 0.0;
    for (std::int64_t i = j; i < m; ++i) largest = std::max(largest, std::fabs(panel[i * kPanel + c]));
    if (!(largest > 0.0 && largest < std::numeric_limits<double>::infinity())) return 1.0;
    if (largest >= 0x1p-400 && largest <= 0x1p400) return 1.0;
    return std::ldexp(1.0, std::clamp(-std::ilogb(largest), -1000, 1000));
  }

  // H_j from column c of the panel, which keeps R's entry and what lies above it.
  void make_reflection(std::int64_t j, double* panel, std::int64_t c) {
    const double scale = scale_of(panel, j, h_.m, c);
    double squares = 0.0;
    for (std::int64_t i = j + 1; i < h_.m; ++i) {
      const double x = panel[i * kPanel + c] * scale;
      squares = squares + x * x;
    }
    if (squares == 0.0) return;  // tau stays 0
    const double alpha = panel[j * kPanel + c] * scale;
    const double beta = -std::copysign(std::sqrt(alpha * alpha + squares), alpha), below = alpha - beta;
    h_.tau[static_cast<std::size_t>(j)] = (beta - alpha) / beta;
    double* const v = h_.vector(j);
    for (std::int64_t i = j + 1; i < h_.m; ++i) v[i] = panel[i * kPanel + c] * scale / below;
    panel[j * kPanel + c] = beta / scale;
  }

  void factor() {
    const std::int64_t panels = panels_of(p_.n), size = p_.m * kPanel;
    std::vector<double> work(static_cast<std::size_t>(panels * size));
    for (std::int64_t c = 0; c < p_.n; ++c) {
      double* const column = work.data() + c / kPanel * size + c % kPanel;
      for (std::int64_t i = 0; i < p_.m; ++i) {
        const std::int64_t at = i * p_.row_stride + c * p_.column_stride;
        column[i * kPanel] = p_.wide_a != nullptr ? p_.wide_a[at] : static_cast<double>(p_.a[at]);
      }
    }
    for (std::int64_t first = 0; first < h_.k; first += kPanel) {
      const std::int64_t end = std::min(first + kPanel, h_.k), own = first / kPanel;
      double* const panel = work.data() + own * size;
      for (std::int64_t j = first; j < end; ++j) {
        make_reflection(j, panel, j - first);
        if (j + 1 < std::min(first + kPanel, p_.n)) Panels::reflect_from(h_, j, panel, j - first + 1);
      }
      parallel_for(own + 1, panels, smallest_share(), [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t q = from; q < to; ++q) Panels::reflect_ascending(h_, first, end, work.data() + q * size);
      });
    }
    for (std::int64_t c = 0; c < p_.n; ++c) {
      const double* const column = work.data() + c / kPanel * size + c % kPanel;
      for (std::int64_t i = 0; i < p_.r_rows; ++i) {
        const double value = i < h_.k && i <= c ? column[i * kPanel] : 0.0;
        if (p_.wide_r != nullptr) {
          p_.wide_r[c * p_.r_rows + i] = value;
        } else {
          p_.r[c * p_.r_rows + i] = static_cast<float>(value);
        }
      }
    }
  }

  // Columns of the product of all reflections. Those after a column's own leave it as it is: up to its panel's last,
  // one subtracts zeros from zeros, unless a value is not finite; so each column begins at its own.
  void form_q() {
    parallel_for(0, panels_of(p_.q_columns), smallest_share(), [&](std::int64_t from, std::int64_t to) {
      std::vector<double> panel(static_cast<std::size_t>(p_.m * kPanel));
      for (std::int64_t q = from; q < to; ++q) {
        const std::int64_t first = q * kPanel, count = std::min(kPanel, p_.q_columns - first);
        std::fill(panel.begin(), panel.end(), 0.0);
        for (std::int64_t c = 0; c < count; ++c) panel[static_cast<std::size_t>((first + c) * kPanel + c)] = 1.0;
        for (std::int64_t j = std::min(first + count, h_.k) - 1; j >= first; --j) {
          Panels::reflect_from(h_, j, panel.data(), j - first);
        }
        Panels::reflect_descending(h_, std::min(first, h_.k), panel.data());
        for (std::int64_t c = 0; c < count; ++c) {
          for (std::int64_t i = 0; i < p_.m; ++i) {
            const double value = panel[static_cast<std::size_t>(i * kPanel + c)];
            if (p_.wide_q != nullptr) {
              p_.wide_q[(first + c) * p_.m + i] = value;
            } else {
              p_.q[(first + c) * p_.m + i] = static_cast<float>(value);
            }
          }
        }
      }
    });
  }

  const QrProblem& p_;
  Reflections h_;
};

}  // namespace
}  // namespace isobit::kernels
