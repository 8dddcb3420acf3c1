// QR as householder.h writes it: one reflection after the other.
#include "kernels/cpu/householder_panels.h"

#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::reference {
namespace {

struct PlainPanels {
  static constexpr std::int64_t kColumns = 16;

  static void reflect_from(const Reflections& h, std::int64_t j, double* panel, std::int64_t first) {
    const double tau = h.factor(j);
    if (tau == 0.0) return;
    const double* const v = h.vector(j);
    double w[kColumns];
    double* const head = panel + j * kColumns;
    for (std::int64_t c = first; c < kColumns; ++c) w[c] = head[c];
    for (std::int64_t i = j + 1; i < h.m; ++i) {
      for (std::int64_t c = first; c < kColumns; ++c) w[c] = w[c] + v[i] * panel[i * kColumns + c];
    }
    for (std::int64_t c = first; c < kColumns; ++c) {
      w[c] = tau * w[c];
      head[c] = head[c] - w[c];
    }
    for (std::int64_t i = j + 1; i < h.m; ++i) {
      double* const row = panel + i * kColumns;
      for (std::int64_t c = first; c < kColumns; ++c) row[c] = row[c] - v[i] * w[c];
    }
  }
  static void reflect_ascending(const Reflections& h, std::int64_t first, std::int64_t end, double* panel) {
    for (std::int64_t j = first; j < end; ++j) reflect_from(h, j, panel, 0);
  }
  static void reflect_descending(const Reflections& h, std::int64_t end, double* panel) {
    for (std::int64_t j = end - 1; j >= 0; --j) reflect_from(h, j, panel, 0);
  }
};

void householder_qr(const QrProblem& problem) { HouseholderPanels<PlainPanels>(problem).compute(); }

}  // namespace

void fill_householder(HostTable& t) { t.householder_qr = householder_qr; }

}  // namespace isobit::kernels::reference
