// Columns are worked on in panels of 16, side by side: of each column the order of operations is the contract's, which
// columns share a panel or a thread does not matter.
#include "kernels/householder.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/device.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

constexpr std::int64_t kPanel = 16;

struct Reflections {
  std::int64_t m, k;
  std::vector<double> v;    // [k, m]: row j holds v_j, its entries from j + 1 on (entry j is 1)
  std::vector<double> tau;  // [k]: 0: none

  Reflections(std::int64_t rows, std::int64_t count)
      : m(rows), k(count), v(static_cast<std::size_t>(rows * count)), tau(static_cast<std::size_t>(count)) {}
  double* vector(std::int64_t j) { return v.data() + j * m; }
  [[nodiscard]] const double* vector(std::int64_t j) const { return v.data() + j * m; }
};

// panel [m, kPanel] becomes H_j panel.
void reflect(const Reflections& h, std::int64_t j, double* panel) {
  const double tau = h.tau[static_cast<std::size_t>(j)];
  if (tau == 0.0) return;
  const double* const v = h.vector(j);
  double w[kPanel];
  double* const head = panel + j * kPanel;
  for (std::int64_t c = 0; c < kPanel; ++c) w[c] = head[c];
  for (std::int64_t i = j + 1; i < h.m; ++i) {
    const double* const row = panel + i * kPanel;
    const double x = v[i];
    for (std::int64_t c = 0; c < kPanel; ++c) w[c] = w[c] + x * row[c];
  }
  for (std::int64_t c = 0; c < kPanel; ++c) {
    w[c] = tau * w[c];
    head[c] = head[c] - w[c];
  }
  for (std::int64_t i = j + 1; i < h.m; ++i) {
    double* const row = panel + i * kPanel;
    const double x = v[i];
    for (std::int64_t c = 0; c < kPanel; ++c) row[c] = row[c] - x * w[c];
  }
}

// The same for column c of the panel alone.
void reflect_column(const Reflections& h, std::int64_t j, double* panel, std::int64_t c) {
  const double tau = h.tau[static_cast<std::size_t>(j)];
  if (tau == 0.0) return;
  const double* const v = h.vector(j);
  double w = panel[j * kPanel + c];
  for (std::int64_t i = j + 1; i < h.m; ++i) w = w + v[i] * panel[i * kPanel + c];
  w = tau * w;
  panel[j * kPanel + c] = panel[j * kPanel + c] - w;
  for (std::int64_t i = j + 1; i < h.m; ++i) panel[i * kPanel + c] = panel[i * kPanel + c] - v[i] * w;
}

// H_j from column c of the panel, which keeps R's entry and what lies above it.
void make_reflection(Reflections& h, std::int64_t j, double* panel, std::int64_t c) {
  double squares = 0.0;
  for (std::int64_t i = j + 1; i < h.m; ++i) {
    const double x = panel[i * kPanel + c];
    squares = squares + x * x;
  }
  if (squares == 0.0) return;  // tau stays 0
  double& alpha = panel[j * kPanel + c];
  const double beta = -std::copysign(std::sqrt(alpha * alpha + squares), alpha), below = alpha - beta;
  h.tau[static_cast<std::size_t>(j)] = (beta - alpha) / beta;
  double* const v = h.vector(j);
  for (std::int64_t i = j + 1; i < h.m; ++i) v[i] = panel[i * kPanel + c] / below;
  alpha = beta;
}

std::int64_t panels_of(std::int64_t columns) { return (columns + kPanel - 1) / kPanel; }
std::int64_t smallest_share(std::int64_t m) { return 1 + 256 / (m + 1); }

void factor(const QrProblem& p, Reflections& h) {
  const std::int64_t panels = panels_of(p.n), size = p.m * kPanel;
  std::vector<double> work(static_cast<std::size_t>(panels * size));
  for (std::int64_t c = 0; c < p.n; ++c) {
    double* const column = work.data() + c / kPanel * size + c % kPanel;
    for (std::int64_t i = 0; i < p.m; ++i) {
      column[i * kPanel] = static_cast<double>(p.a[i * p.row_stride + c * p.column_stride]);
    }
  }
  for (std::int64_t first = 0; first < h.k; first += kPanel) {
    const std::int64_t end = std::min(first + kPanel, h.k), own = first / kPanel;
    double* const panel = work.data() + own * size;
    for (std::int64_t j = first; j < end; ++j) {
      make_reflection(h, j, panel, j - first);
      for (std::int64_t c = j - first + 1; c < std::min(kPanel, p.n - first); ++c) reflect_column(h, j, panel, c);
    }
    parallel_for(own + 1, panels, smallest_share(p.m), [&](std::int64_t from, std::int64_t to) {
      const FloatEnvironment environment;
      for (std::int64_t q = from; q < to; ++q) {
        for (std::int64_t j = first; j < end; ++j) reflect(h, j, work.data() + q * size);
      }
    });
  }
  for (std::int64_t c = 0; c < p.n; ++c) {
    const double* const column = work.data() + c / kPanel * size + c % kPanel;
    for (std::int64_t i = 0; i < p.r_rows; ++i) {
      p.r[c * p.r_rows + i] = i < h.k && i <= c ? static_cast<float>(column[i * kPanel]) : 0.0f;
    }
  }
}

// Columns of the product of all reflections. Those after a column's own leave it as it is: up to its panel's last, one
// subtracts zeros from zeros, unless a value is not finite; so each column begins at its own.
void form_q(const QrProblem& p, const Reflections& h) {
  parallel_for(0, panels_of(p.q_columns), smallest_share(p.m), [&](std::int64_t from, std::int64_t to) {
    const FloatEnvironment environment;
    std::vector<double> panel(static_cast<std::size_t>(p.m * kPanel));
    for (std::int64_t q = from; q < to; ++q) {
      const std::int64_t first = q * kPanel, count = std::min(kPanel, p.q_columns - first);
      std::fill(panel.begin(), panel.end(), 0.0);
      for (std::int64_t c = 0; c < count; ++c) panel[static_cast<std::size_t>((first + c) * kPanel + c)] = 1.0;
      for (std::int64_t j = std::min(first + count, h.k) - 1; j >= first; --j) {
        for (std::int64_t c = j - first; c < count; ++c) reflect_column(h, j, panel.data(), c);
      }
      for (std::int64_t j = std::min(first, h.k) - 1; j >= 0; --j) reflect(h, j, panel.data());
      for (std::int64_t c = 0; c < count; ++c) {
        for (std::int64_t i = 0; i < p.m; ++i) {
          p.q[(first + c) * p.m + i] = static_cast<float>(panel[static_cast<std::size_t>(i * kPanel + c)]);
        }
      }
    }
  });
}

}  // namespace

void householder_qr(const QrProblem& problem) {
  if (in_device_scope()) throw DeviceError("the QR factorisation has no GPU kernel");
  const FloatEnvironment environment;
  Reflections reflections(problem.m, std::min(problem.m, problem.n));
  factor(problem, reflections);
  if (problem.q_columns > 0) form_q(problem, reflections);
}

}  // namespace isobit::kernels
