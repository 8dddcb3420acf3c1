#include <algorithm>

#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/householder.h"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;

// Q and R, reduced and complete, of the matrix and of its memory read transposed.
Fingerprint qr(std::int64_t m, std::int64_t n, const Floats& a) {
  Digest digest;
  for (const bool transposed : {false, true}) {
    for (const bool complete : {false, true}) {
      const std::int64_t columns = complete ? m : std::min(m, n);
      Floats q(static_cast<std::size_t>(m * columns)), r(static_cast<std::size_t>(columns * n));
      kernels::householder_qr({.m = m,
                               .n = n,
                               .a = a.data(),
                               .row_stride = transposed ? 1 : n,
                               .column_stride = transposed ? m : 1,
                               .q_columns = columns,
                               .q = q.data(),
                               .r_rows = columns,
                               .r = r.data()});
      digest.add(q).add(r);
    }
  }
  return digest.result();
}

// Columns of zeros below the diagonal need no reflection; one not finite spoils what follows it.
Fingerprint sparse(bool wild) {
  constexpr std::int64_t kRows = 29, kColumns = 21;
  Floats a = uniform(213, kRows * kColumns);
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (const std::int64_t c : {0, 6, 20}) a[static_cast<std::size_t>(i * kColumns + c)] = i <= c / 2 ? -0.5f : 0.0f;
  }
  if (wild) a[3 * kColumns + 18] = contract::float_of(0x7f800000u);
  return qr(kRows, kColumns, a);
}

}  // namespace

void add_factor_cases(std::vector<Case>& cases) {
  cases.push_back({"householder.tall", [] { return qr(61, 37, uniform(211, 61 * 37)); }, true});
  cases.push_back({"householder.wide", [] { return qr(19, 53, uniform(211, 19 * 53)); }, true});
  cases.push_back({"householder.square", [] { return qr(33, 33, hostile(212, 33 * 33)); }, true});
  cases.push_back({"householder.one", [] { return qr(1, 1, {-3.0f}); }, true});
  cases.push_back({"householder.zeros", [] { return sparse(false); }, true});
  cases.push_back({"householder.wild", [] { return sparse(true); }, true});
}

}  // namespace isobit::golden
