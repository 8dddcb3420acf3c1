#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/activation.h"
#include "kernels/group_norm.h"
#include "kernels/indexed.h"

namespace isobit::golden {
namespace {

using kernels::BinaryWith;
using kernels::Cumulative;
using kernels::Fingerprint;
using kernels::GroupShape;
using kernels::Parameters;
using kernels::TernaryWith;
using kernels::UnaryWith;

Fingerprint group_norm(const GroupShape& shape) {
  const std::int64_t n = shape.n * shape.c * shape.inner;
  const Floats x = uniform(81, n, -3.0f, 5.0f), dy = uniform(82, n), weight = uniform(83, shape.c);
  const Floats bias = uniform(84, shape.c);
  const auto rows = static_cast<std::size_t>(shape.rows()), channels = static_cast<std::size_t>(shape.c);
  Floats y(x.size()), dx(x.size()), mean(rows), invstd(rows), dweight(channels), dbias(channels);
  kernels::group_norm({.shape = shape, .x = x.data(), .weight = weight.data(), .bias = bias.data(), .y = y.data(),
                       .mean = mean.data(), .invstd = invstd.data()});
  kernels::group_norm_backward({.shape = shape, .x = x.data(), .dy = dy.data(), .weight = weight.data(),
                                .mean = mean.data(), .invstd = invstd.data(), .dx = dx.data(),
                                .dweight = dweight.data(), .dbias = dbias.data()});
  return Digest().add(y).add(mean).add(invstd).add(dx).add(dweight).add(dbias).result();
}

constexpr std::int64_t kCount = 5003;

template <class Op>
Fingerprint each_operator(int count, void (*compute)(Op, const Parameters&, float*)) {
  Digest digest;
  for (const Parameters& p : {Parameters{1.0f, 1.0f, 1.0f}, Parameters{0.3f, 20.0f, 0.7f}}) {
    for (int op = 0; op < count; ++op) {
      Floats y(kCount);
      compute(Op(op), p, y.data());
      digest.add(y);
    }
  }
  return digest.result();
}

// Values of ordinary size, so that every branch is taken, and some hostile ones.
Floats mixed(std::uint64_t key) {
  Floats x = uniform(key, kCount, -4.0f, 4.0f);
  const Floats wild = hostile(key + 1, kCount, true);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = wild[i];
  return x;
}

Fingerprint indexed(std::int64_t rows, std::int64_t source_rows, std::int64_t inner, float alpha) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(rows) + 1), order;
  const std::vector<std::int64_t> index = integers(91, source_rows, static_cast<std::uint32_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < index.size(); ++k) {
      if (index[k] == r) order.push_back(static_cast<std::int64_t>(k));
    }
    begin[static_cast<std::size_t>(r) + 1] = static_cast<std::int64_t>(order.size());
  }
  const Floats source = hostile(92, 2 * source_rows * inner);
  Floats y = hostile(93, 2 * rows * inner);
  kernels::indexed_add({rows, begin.data(), order.data()}, 2, source_rows, inner, alpha, source.data(), y.data());
  return Digest().add(y).result();
}

Fingerprint cumulative(Cumulative op) {
  Digest digest;
  for (const std::int64_t inner : {1, 7}) {
    const Floats x = op == Cumulative::sum ? hostile(94, 3 * 400 * inner) : uniform(95, 3 * 400 * inner, 0.9f, 1.1f);
    Floats y(x.size());
    kernels::cumulative(op, 3, 400, inner, x.data(), y.data());
    digest.add(y);
  }
  return digest.result();
}

}  // namespace

void add_network_cases(std::vector<Case>& cases) {
  cases.push_back({"group_norm.layers", [] { return group_norm({67, 700, 1, 1}); }});
  cases.push_back({"group_norm.many_rows", [] { return group_norm({1100, 33, 1, 1}); }});
  cases.push_back({"group_norm.groups", [] { return group_norm({5, 12, 130, 3}); }});
  cases.push_back({"activation.unary", [] {
                     return each_operator<UnaryWith>(8, [](UnaryWith op, const Parameters& p, float* y) {
                       kernels::unary_with(op, p, mixed(96).data(), y, kCount);
                     });
                   }});
  cases.push_back({"activation.binary", [] {
                     return each_operator<BinaryWith>(14, [](BinaryWith op, const Parameters& p, float* y) {
                       kernels::binary_with(op, p, mixed(97).data(), mixed(98).data(), y, kCount);
                     });
                   }});
  cases.push_back({"activation.ternary", [] {
                     return each_operator<TernaryWith>(4, [](TernaryWith op, const Parameters& p, float* y) {
                       kernels::ternary_with(op, p, mixed(97).data(), mixed(98).data(), mixed(99).data(), y, kCount);
                     });
                   }});
  cases.push_back({"indexed_add.sum", [] { return indexed(3, 2500, 17, 1.0f); }});
  cases.push_back({"indexed_add.alpha", [] { return indexed(200, 900, 5, -0.3f); }});
  cases.push_back({"cumulative.sum", [] { return cumulative(Cumulative::sum); }});
  cases.push_back({"cumulative.product", [] { return cumulative(Cumulative::product); }});
}

}  // namespace isobit::golden
