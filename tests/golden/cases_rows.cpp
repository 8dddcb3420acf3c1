#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/indexed.h"
#include "kernels/place_rows.h"
#include "kernels/random.h"
#include "kernels/scan.h"
#include "kernels/sort.h"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;
using kernels::IndexReduction;

// Every other element repeats another, so that order among equals shows.
Floats with_equals(std::uint64_t key, std::int64_t n) {
  Floats x = hostile(key, n, true);
  for (std::size_t i = 1; i < x.size(); i += 2) x[i] = x[i / 2];
  return x;
}

Fingerprint sorted(bool descending) {
  Digest digest;
  for (const auto& [rows, n] : {std::pair<std::int64_t, std::int64_t>{301, 10}, {7, 700}, {2, 5003}}) {
    const Floats x = with_equals(131, rows * n);
    Floats values(x.size());
    std::vector<std::int64_t> places(x.size());
    kernels::sort_rows(descending, rows, n, x.data(), values.data(), places.data());
    digest.add(values).add(places);
  }
  return digest.result();
}

Fingerprint product() {
  Digest digest;
  for (const std::int64_t inner : {1, 7}) {
    const Floats x = uniform(132, 3 * 1300 * inner, 0.95f, 1.05f);
    Floats y(static_cast<std::size_t>(3 * inner));
    kernels::product(3, 1300, inner, x.data(), y.data());
    digest.add(y);
  }
  return digest.result();
}

Fingerprint log_sums() {
  Digest digest;
  for (const std::int64_t inner : {1, 7}) {
    const Floats x = uniform(133, 3 * 400 * inner, -30.0f, 30.0f);
    Floats y(x.size());
    kernels::running_log_sum(3, 400, inner, x.data(), y.data());
    digest.add(y);
  }
  return digest.result();
}

Fingerprint extrema() {
  Digest digest;
  for (const bool largest : {true, false}) {
    for (const std::int64_t inner : {1, 7}) {
      const Floats x = with_equals(134, 3 * 400 * inner);
      Floats values(x.size());
      std::vector<std::int64_t> places(x.size());
      kernels::running_extremum(largest, 3, 400, inner, x.data(), values.data(), places.data());
      digest.add(values).add(places);
    }
  }
  return digest.result();
}

Fingerprint indexed(IndexReduction op) {
  Digest digest;
  for (const bool include_self : {false, true}) {
    constexpr std::int64_t kRows = 5, kSources = 3000;
    std::vector<std::int64_t> begin(kRows + 1), order;
    const std::vector<std::int64_t> index = integers(135, kSources, kRows);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::size_t k = 0; k < index.size(); ++k) {
        if (index[k] == r) order.push_back(static_cast<std::int64_t>(k));
      }
      begin[static_cast<std::size_t>(r) + 1] = static_cast<std::int64_t>(order.size());
    }
    const Floats source = op == IndexReduction::product ? uniform(136, kSources, 0.95f, 1.05f) : hostile(137, kSources);
    Floats y = uniform(138, kRows);
    kernels::indexed_reduce(op, {kRows, begin.data(), order.data()}, 1, include_self, source.data(), y.data());
    digest.add(y);
  }
  return digest.result();
}

// Elements of every size; rows of a source taken twice, rows of the destination left alone.
Fingerprint placed(std::int64_t size) {
  const std::vector<std::int64_t> to{6, 0, 3}, from{1, 4, 1};
  Digest digest;
  for (const std::int64_t inner : {1, 5, 301}) {
    const auto bytes = [&](std::uint64_t key, std::int64_t rows) {
      const std::vector<std::int64_t> values = integers(key, 3 * rows * inner * size, 256);
      return std::vector<std::uint8_t>(values.begin(), values.end());
    };
    const std::vector<std::uint8_t> source = bytes(141, 5);
    std::vector<std::uint8_t> destination = bytes(142, 7);
    kernels::place_rows({3, 7, 5, inner, size, 3, to.data(), from.data()}, source.data(), destination.data());
    digest.add(destination);
  }
  return digest.result();
}

Fingerprint coins() {
  const Floats p = uniform(139, 5000, 0.0f, 1.0f);
  Floats out(p.size());
  kernels::fill_bernoulli_each(113, 3, p.data(), out.data(), 5000);
  return Digest().add(out).result();
}

}  // namespace

void add_row_cases(std::vector<Case>& cases) {
  cases.push_back({"sort.ascending", [] { return sorted(false); }});
  cases.push_back({"sort.descending", [] { return sorted(true); }});
  cases.push_back({"scan.product", product});
  cases.push_back({"scan.log_sum", log_sums});
  cases.push_back({"scan.extremum", extrema});
  const char* const names[] = {"sum", "mean", "product", "maximum", "minimum"};
  for (int op = 0; op < 5; ++op) {
    cases.push_back(
        {std::string("indexed_reduce.") + names[op], [=] { return indexed(static_cast<IndexReduction>(op)); }});
  }
  cases.push_back({"random.bernoulli_each", coins});
  for (const std::int64_t size : {1, 2, 4, 8, 16}) {
    cases.push_back({"place_rows.bytes_" + std::to_string(size), [=] { return placed(size); }});
  }
}

}  // namespace isobit::golden
