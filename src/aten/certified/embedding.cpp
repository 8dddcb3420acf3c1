// Gradients of embeddings, and bags of embeddings: sums and means (contract, section 4; kernels/indexed.h).
#include <ATen/ops/embedding_sparse_backward.h>

#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/indexed_plan.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

Tensor embedding_backward(const Tensor& grad_output, const Tensor& indices, std::int64_t rows, std::int64_t padding,
                          bool scale_by_frequency) {
  constexpr const char* op = "aten::embedding_dense_backward";
  require_computed(op, grad_output.scalar_type());
  return row_gradients(op, contiguous(grad_output), where_it_works(indices).flatten(), rows, padding,
                       scale_by_frequency);
}

// ---- bags of embeddings

enum class Mode { sum = 0, mean = 1, maximum = 2 };
constexpr const char* kOfMaxima =
    "take the rows with torch.nn.functional.embedding and their maxima with Tensor.scatter_reduce(..., \"amax\"), or "
    "use "
    "mode sum or mean";
constexpr const char* kBag = "aten::_embedding_bag";
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;

// Result, the bag of each index, the number of indices in each bag (padding apart), and what only maxima use.
Four embedding_bag(const Tensor& weight, const Tensor& given_indices, const Tensor& given_offsets,
                   bool /*scale_by_frequency*/, std::int64_t given_mode, bool /*sparse*/, const Optional& factors,
                   bool includes_last, std::int64_t padding) {
  const at::ScalarType type = require_computed(kBag, weight.scalar_type());
  const auto mode = static_cast<Mode>(given_mode);
  if (mode == Mode::maximum) refuse(kBag, "is certified for sums and means only", kOfMaxima);
  const bool weighted = factors && factors->defined();
  TORCH_CHECK(!weighted || mode == Mode::sum, kBag, ": per_sample_weights need mode sum");
  const Tensor indices = on_host(given_indices), offsets = on_host(given_offsets);
  check_index(kBag, indices, weight.size(0));
  const std::int64_t n = indices.numel(), bags = offsets.numel() - (includes_last ? 1 : 0);
  const Tensor bag = host_integers(n), size = host_integers(bags);
  const Tensor begin = host_integers(bags + 1), order = host_integers(n);
  const std::int64_t* const at = offsets.const_data_ptr<std::int64_t>();
  const std::int64_t* const index = indices.const_data_ptr<std::int64_t>();
  std::int64_t* const to = order.mutable_data_ptr<std::int64_t>();
  std::int64_t* const start = begin.mutable_data_ptr<std::int64_t>();
  std::int64_t *const bag_of = bag.mutable_data_ptr<std::int64_t>(), *const size_of =
                                                                         size.mutable_data_ptr<std::int64_t>();
  start[0] = 0;
  for (std::int64_t b = 0; b < bags; ++b) {
    const std::int64_t end = b + 1 < offsets.numel() ? at[b + 1] : n;
    TORCH_CHECK(at[b] >= 0 && at[b] <= end && end <= n && at[0] == 0, kBag, ": offsets ", given_offsets,
                " must start at 0, never decrease and stay at or below ", n);
    std::int64_t met = start[b];
    for (std::int64_t k = at[b]; k < end; ++k) {
      bag_of[k] = b;
      if (index[k] != padding) to[met++] = weighted ? k : index[k];
    }
    start[b + 1] = met;
    size_of[b] = met - start[b];
  }
  // Weighted: the rows are multiplied first, one rounding each.
  Tensor source = contiguous(weight);
  if (weighted) source = contiguous(weight.index_select(0, given_indices).mul(factors->unsqueeze(1)));
  const IndexedPlan plan = plan_of_lists(begin, order);
  const Tensor y = new_tensor({bags, weight.size(1)}, type);
  y.zero_();
  with_data(y, [&](auto* to_rows) {
    kernels::indexed_add(plan.occurrences(), 1, source.size(0), weight.size(1), like(to_rows, 1.0),
                         data_like(to_rows, source), to_rows);
  });
  const c10::Device device = weight.device();
  const Tensor sizes = size.to(device);
  if (mode == Mode::mean) y.div_(sizes.clamp_min(1).to(type).unsqueeze(1));
  return {y, bag.to(device), sizes, new_tensor({0}, at::kLong)};
}

// The gradient of each index's row, before those of one row are summed.
Tensor gradient_of_each(const char* op, const Tensor& grad_output, const Tensor& bag, const Tensor& sizes,
                        std::int64_t given_mode, const Optional& factors) {
  require_computed(op, grad_output.scalar_type());
  const auto mode = static_cast<Mode>(given_mode);
  if (mode == Mode::maximum) refuse(op, "is certified for sums and means only", kOfMaxima);
  Tensor dy = grad_output;
  if (mode == Mode::mean) dy = dy.div(sizes.clamp_min(1).to(dy.scalar_type()).unsqueeze(1));
  dy = dy.index_select(0, bag);
  return factors && factors->defined() ? dy.mul(factors->unsqueeze(1)) : dy;
}

Tensor embedding_bag_backward(const Tensor& grad_output, const Tensor& indices, const Tensor& bag, const Tensor& sizes,
                              const Tensor& /*maximum*/, std::int64_t rows, bool scale_by_frequency,
                              std::int64_t given_mode, const Optional& factors, std::int64_t padding) {
  constexpr const char* op = "aten::_embedding_bag_dense_backward";
  const Tensor dy = gradient_of_each(op, grad_output, bag, sizes, given_mode, factors);
  return row_gradients(op, contiguous(dy), on_host(indices).flatten(), rows, padding, scale_by_frequency);
}

// Stock's choice between the two kinds of gradient. The offsets are in `bag` already.
Tensor any_embedding_bag_backward(const Tensor& dy, const Tensor& indices, const Tensor& /*offsets*/, const Tensor& bag,
                                  const Tensor& sizes, const Tensor& maximum, std::int64_t rows,
                                  bool scale_by_frequency, std::int64_t mode, bool sparse, const Optional& factors,
                                  std::int64_t padding) {
  if (!sparse) {
    return embedding_bag_backward(dy, indices, bag, sizes, maximum, rows, scale_by_frequency, mode, factors, padding);
  }
  TORCH_CHECK(!scale_by_frequency, "aten::_embedding_bag_backward: scale_grad_by_freq with sparse gradients");
  const Tensor each = gradient_of_each("aten::_embedding_bag_backward", dy, bag, sizes, mode, factors);
  return at::embedding_sparse_backward(each, indices.flatten(), rows, padding, false);
}

}  // namespace

std::vector<Entry> embedding_operators() {
  constexpr std::string_view ordered = "4: occurrences in ascending order, leaves of 512, pairwise tree";
  return {
      certify<embedding_backward>("aten::embedding_dense_backward", "", ordered),
      certify<embedding_bag>(kBag, "", ordered),
      certify<embedding_bag>("aten::_embedding_bag_forward_only", "", ordered),
      certify<any_embedding_bag_backward>("aten::_embedding_bag_backward", "", ordered),
      certify<embedding_bag_backward>("aten::_embedding_bag_dense_backward", "", ordered),
  };
}

}  // namespace isobit::aten
