// Distances between the rows of matrices: norms of differences (contract, section 4), as nn.PairwiseDistance composes
// them.
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;

Tensor norms(const Tensor& difference, double p) { return at::linalg_vector_norm(difference, p, at::IntArrayRef{-1}); }

// Of every difference, for a gradient of every distance: sign, quotient by the distance, or the sign where it is the
// distance; other orders sign * (|d| / distance)^(p - 1); +0 where the distance is 0.
Tensor difference_gradients(const Tensor& difference, const Tensor& dy, const Tensor& distance, double p) {
  const Tensor grad = dy.unsqueeze(-1), far = distance.unsqueeze(-1), none = new_tensor({}, dy.scalar_type()).zero_();
  if (p == 1.0) return grad.mul(difference.sign());
  if (p == 2.0) return at::where(far.eq(0), none, grad.mul(difference).div(far));
  const Tensor size = difference.abs();
  if (p == std::numeric_limits<double>::infinity()) return at::where(size.eq(far), grad.mul(difference.sign()), none);
  if (p == 0.0) return grad.mul(difference.sub(difference));  // +0, of the right sizes
  // sign * (|d| / distance)^(p - 1)
  const Tensor share = at::where(far.eq(0).logical_or(size.eq(0)), none, size.div(far).pow(p - 1.0));
  return grad.mul(difference.sign()).mul(share);
}

// compute(first, count) for rows side by side along `dim`, so many at a time that their differences, `per_row` elements
// a row, stay in a cache; each row is what it is by itself. On a device all at once.
template <class Compute>
Tensor in_blocks(const Tensor& like, std::int64_t dim, std::int64_t rows, std::int64_t per_row, Compute compute) {
  constexpr std::int64_t kElements = 1 << 15;
  const std::int64_t count = std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(per_row, 1));
  if (!like.is_cpu() || rows <= 2 * count) return compute(std::int64_t{0}, rows);
  std::vector<Tensor> parts;
  for (std::int64_t first = 0; first < rows; first += count)
    parts.push_back(compute(first, std::min(count, rows - first)));
  return at::cat(parts, dim);
}
// Elements of the differences between a row of a and all of b's, of every matrix.
std::int64_t differences_of_row(const Tensor& a, const Tensor& b) {
  const std::int64_t matrix_a = std::max<std::int64_t>(1, a.size(-2) * a.size(-1)),
                     matrix_b = std::max<std::int64_t>(1, b.size(-2) * b.size(-1));
  return std::max(a.numel() / matrix_a, b.numel() / matrix_b) * matrix_b;
}

constexpr const char* kForward = "aten::_cdist_forward";
constexpr const char* kBackward = "aten::_cdist_backward";

Tensor cdist(const Tensor& a, const Tensor& b, double p, std::optional<std::int64_t> /*mode*/) {
  require_computed(kForward, {&a, &b});
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1), kForward,
              ": rows of the same length expected, got ", a.sizes(), " and ", b.sizes());
  return in_blocks(a, -2, a.size(-2), differences_of_row(a, b), [&](std::int64_t first, std::int64_t count) {
    return norms(a.narrow(-2, first, count).unsqueeze(-2).sub(b.unsqueeze(-3)), p);
  });
}
// The first argument's gradient: the sum over the second's rows. (Autograd asks for the other with both exchanged.)
Tensor cdist_backward(const Tensor& dy, const Tensor& a, const Tensor& b, double p, const Tensor& distance) {
  require_computed(kBackward, {&dy, &a, &b, &distance});
  return in_blocks(a, -2, a.size(-2), differences_of_row(a, b), [&](std::int64_t first, std::int64_t count) {
    const Tensor difference = a.narrow(-2, first, count).unsqueeze(-2).sub(b.unsqueeze(-3));
    const Tensor d =
        difference_gradients(difference, dy.narrow(-2, first, count), distance.narrow(-2, first, count), p);
    return d.sum(-2);  // of the broadcast batch: autograd adds up what was broadcast
  });
}

constexpr const char* kPairs = "aten::_pdist_forward";
constexpr const char* kPairsBackward = "aten::_pdist_backward";

struct Pairs {
  Tensor first, second;
};
Pairs pairs_of(const Tensor& x) {
  const Tensor both = at::triu_indices(x.size(0), x.size(0), 1, at::TensorOptions().dtype(at::kLong)).to(x.device());
  return {both.select(0, 0).contiguous(), both.select(0, 1).contiguous()};
}
Tensor pair_differences(const Tensor& x, const Pairs& pairs, std::int64_t first, std::int64_t count) {
  return at::index_select(x, 0, pairs.first.narrow(0, first, count))
      .sub(at::index_select(x, 0, pairs.second.narrow(0, first, count)));
}

Tensor pdist(const Tensor& x, double p) {
  require_computed(kPairs, x.scalar_type());
  TORCH_CHECK(x.dim() == 2, kPairs, ": a matrix expected, got ", x.sizes());
  const Pairs pairs = pairs_of(x);
  return in_blocks(x, 0, pairs.first.numel(), x.size(1), [&](std::int64_t first, std::int64_t count) {
    return norms(pair_differences(x, pairs, first, count), p);
  });
}
// Sums over the pairs in which a row is the first, less those in which it is the second.
Tensor pdist_backward(const Tensor& dy, const Tensor& x, double p, const Tensor& distance) {
  require_computed(kPairsBackward, {&dy, &x, &distance});
  const Pairs pairs = pairs_of(x);
  const Tensor d = in_blocks(x, 0, pairs.first.numel(), x.size(1), [&](std::int64_t first, std::int64_t count) {
    return difference_gradients(pair_differences(x, pairs, first, count), dy.narrow(0, first, count),
                                distance.narrow(0, first, count), p);
  });
  const Tensor none = new_tensor(x.sizes(), x.scalar_type()).zero_();
  return none.index_add(0, pairs.first, d).sub(none.index_add(0, pairs.second, d));
}

}  // namespace

std::vector<Entry> distance_operators() {
  constexpr std::string_view norm = "4: norms of the differences";
  constexpr std::string_view gradient = "4: dy * d / distance, summed over the other rows";
  return {
      certify<cdist>(kForward, "", norm),
      certify<cdist_backward>(kBackward, "", gradient),
      certify<pdist>(kPairs, "", norm),
      certify<pdist_backward>(kPairsBackward, "", gradient),
  };
}

}  // namespace isobit::aten
