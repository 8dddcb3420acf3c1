#include <array>
#include <span>
#include <string>
#include <type_traits>

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
  kernels::group_norm({.shape = shape,
                       .x = x.data(),
                       .weight = weight.data(),
                       .bias = bias.data(),
                       .y = y.data(),
                       .mean = mean.data(),
                       .invstd = invstd.data()});
  kernels::group_norm_backward({.shape = shape,
                                .x = x.data(),
                                .dy = dy.data(),
                                .weight = weight.data(),
                                .mean = mean.data(),
                                .invstd = invstd.data(),
                                .dx = dx.data(),
                                .dweight = dweight.data(),
                                .dbias = dbias.data()});
  return Digest().add(y).add(mean).add(invstd).add(dx).add(dweight).add(dbias).result();
}

constexpr std::int64_t kCount = 5003;

// Values of ordinary size, so that every branch is taken, and some hostile ones.
Floats mixed(std::uint64_t key) {
  Floats x = uniform(key, kCount, -4.0f, 4.0f);
  const Floats wild = hostile(key + 1, kCount, true);
  for (std::size_t i = 0; i < x.size(); i += 5) x[i] = wild[i];
  return x;
}

// Of all the given operators, one after the other, for both sets of parameters.
template <class Op>
Fingerprint activation(std::span<const Op> operators) {
  const Floats x = mixed(96), u = mixed(97), v = mixed(98), w = mixed(99);
  Digest digest;
  for (const Parameters& p : {Parameters{1.0f, 1.0f, 1.0f}, Parameters{0.3f, 20.0f, 0.7f}}) {
    for (const Op op : operators) {
      Floats y(kCount);
      if constexpr (std::is_same_v<Op, UnaryWith>) kernels::unary_with(op, p, x.data(), y.data(), kCount);
      if constexpr (std::is_same_v<Op, BinaryWith>) kernels::binary_with(op, p, u.data(), v.data(), y.data(), kCount);
      if constexpr (std::is_same_v<Op, TernaryWith>)
        kernels::ternary_with(op, p, u.data(), v.data(), w.data(), y.data(), kCount);
      digest.add(y);
    }
  }
  return digest.result();
}
// One value of the first `first` operators, which no later one can join, and one of each.
template <class Op, std::size_t count>
void add_activations(std::vector<Case>& cases, const char* together, std::size_t first,
                     const std::array<Op, count>& all) {
  cases.push_back({together, [=, &all] { return activation<Op>(std::span(all).first(first)); }});
  for (const Op& op : all) {
    cases.push_back({"activation." + std::string(name(op)), [&op] { return activation<Op>(std::span(&op, 1)); }});
  }
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
  add_activations(cases, "activation.unary", 8, kernels::kAllUnaryWith);
  add_activations(cases, "activation.binary", 14, kernels::kAllBinaryWith);
  add_activations(cases, "activation.ternary", 4, kernels::kAllTernaryWith);
  cases.push_back({"indexed_add.sum", [] { return indexed(3, 2500, 17, 1.0f); }});
  cases.push_back({"indexed_add.alpha", [] { return indexed(200, 900, 5, -0.3f); }});
  cases.push_back({"cumulative.sum", [] { return cumulative(Cumulative::sum); }});
  cases.push_back({"cumulative.product", [] { return cumulative(Cumulative::product); }});
}

}  // namespace isobit::golden
