// Distances between the rows of matrices: norms of differences (contract, section 4), as nn.PairwiseDistance composes
// them.
#include <ATen/ops/index_select.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/where.h>

#include <limits>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {
namespace {

using at::Tensor;

Tensor norms(const Tensor& difference, double p) { return at::linalg_vector_norm(difference, p, at::IntArrayRef{-1}); }

// Of every difference, for a gradient of every distance: sign, quotient by the distance, or the sign where it is the
// distance; other orders sign * (|d| / distance)^(p - 1); +0 where the distance is 0.
Tensor difference_gradients(const Tensor& difference, const Tensor& dy, const Tensor& distance, double p) {
  const Tensor grad = dy.unsqueeze(-1), far = distance.unsqueeze(-1), none = new_tensor({}).zero_();
  if (p == 1.0) return grad.mul(difference.sign());
  if (p == 2.0) return at::where(far.eq(0), none, grad.mul(difference).div(far));
  const Tensor size = difference.abs();
  if (p == std::numeric_limits<double>::infinity()) return at::where(size.eq(far), grad.mul(difference.sign()), none);
  if (p == 0.0) return grad.mul(difference.sub(difference));  // +0, of the right sizes
  // sign * (|d| / distance)^(p - 1)
  const Tensor share = at::where(far.eq(0).logical_or(size.eq(0)), none, size.div(far).pow(p - 1.0));
  return grad.mul(difference.sign()).mul(share);
}

constexpr const char* kForward = "aten::_cdist_forward";
constexpr const char* kBackward = "aten::_cdist_backward";

Tensor cdist(const Tensor& a, const Tensor& b, double p, std::optional<std::int64_t> /*mode*/) {
  require_float(kForward, {&a, &b});
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1), kForward,
              ": rows of the same length expected, got ", a.sizes(), " and ", b.sizes());
  return norms(a.unsqueeze(-2).sub(b.unsqueeze(-3)), p);
}
// The first argument's gradient: the sum over the second's rows. (Autograd asks for the other with both exchanged.)
Tensor cdist_backward(const Tensor& dy, const Tensor& a, const Tensor& b, double p, const Tensor& distance) {
  require_float(kBackward, {&dy, &a, &b, &distance});
  const Tensor d = difference_gradients(a.unsqueeze(-2).sub(b.unsqueeze(-3)), dy, distance, p);
  return d.sum(-2);  // of the broadcast batch: autograd adds up what was broadcast
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
Tensor pair_differences(const Tensor& x, const Pairs& pairs) {
  return at::index_select(x, 0, pairs.first).sub(at::index_select(x, 0, pairs.second));
}

Tensor pdist(const Tensor& x, double p) {
  require_float(kPairs, x);
  TORCH_CHECK(x.dim() == 2, kPairs, ": a matrix expected, got ", x.sizes());
  return norms(pair_differences(x, pairs_of(x)), p);
}
// Sums over the pairs in which a row is the first, less those in which it is the second.
Tensor pdist_backward(const Tensor& dy, const Tensor& x, double p, const Tensor& distance) {
  require_float(kPairsBackward, {&dy, &x, &distance});
  const Pairs pairs = pairs_of(x);
  const Tensor d = difference_gradients(pair_differences(x, pairs), dy, distance, p);
  const Tensor none = new_tensor(x.sizes()).zero_();
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
