// Negative log-likelihood on a device: the targets are checked first; what writes results runs after that in
// stream order and does nothing where a target is bad, so that the host waits once, at the end, for the
// answer.
#include "kernels/cuda/ordered_reduce.h"
#include "kernels/cuda/table.h"
#include "kernels/loss.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

// The first bad row, or something larger than any row.
class BadRow {
 public:
  BadRow() : scratch_(sizeof(std::int64_t)) { fill_bytes(on_device(), 0x7f, sizeof(std::int64_t)); }
  [[nodiscard]] std::int64_t* on_device() const { return scratch_.as<std::int64_t>(); }
  // Waits.
  [[nodiscard]] std::int64_t result(std::int64_t rows) const {
    std::int64_t row = 0;
    copy_to_host(&row, on_device(), sizeof row);
    return row < rows ? row : -1;
  }

 private:
  Scratch scratch_;
};

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void check_kernel(NllShape s, const std::int64_t* target,
                                                                  std::int64_t* bad_row) {
  const std::int64_t i = block_index() * kThreads + thread_index();
  if (i >= s.n) return;
  const std::int64_t t = target[i];
  if (t != s.ignore_index && (t < 0 || t >= s.classes)) atomic_min(bad_row, i);
}

void check_targets(const NllShape& s, const std::int64_t* target, const BadRow& bad_row) {
  launch(check_kernel, {ceil_div(s.n, kThreads), kThreads}, s, target, bad_row.on_device());
}

// The terms and their weights; each row's term also to `each`, if wanted.
struct TermsOp {
  using Lane = Two;
  using Value = Two;
  using Loaded = Two;
  using Context = bool;  // every target is good
  NllShape s;
  const float* x;
  const std::int64_t* target;
  const float* weight;
  const std::int64_t* bad_row;
  float* each;

  [[nodiscard]] ISOBIT_DEVICE Two none() const { return {}; }
  [[nodiscard]] ISOBIT_DEVICE bool context(std::int64_t) const { return *bad_row >= s.n; }
  [[nodiscard]] ISOBIT_DEVICE Two load(bool good, std::int64_t, std::int64_t i) const {
    if (!good) return {};
    const Two row = term(i);
    if (each != nullptr) each[i] = row.first;
    return row;
  }
  [[nodiscard]] ISOBIT_DEVICE Two take(Two t, Two row, bool, std::int64_t) const { return t + row; }

 private:
  [[nodiscard]] ISOBIT_DEVICE Two term(std::int64_t i) const {
    const std::int64_t t = target[i];
    if (t == s.ignore_index) return {};
    const float value = x[i * s.classes + t];
    if (weight == nullptr) return {-value, 1.0f};
    return {-(weight[t] * value), weight[t]};
  }
};

struct StoreLoss {
  Reduction reduction;
  std::int64_t n;
  const std::int64_t* bad_row;
  float *loss, *total_weight;

  ISOBIT_DEVICE void operator()(std::int64_t, Two sums) const {
    if (*bad_row < n) return;
    const float terms = sums.first + 0.0f, weights = sums.second + 0.0f;
    *total_weight = weights;
    if (reduction == Reduction::sum) *loss = terms;
    if (reduction == Reduction::mean) *loss = terms / weights;
  }
};

std::int64_t nll_forward(const NllShape& s, const float* x, const std::int64_t* target, const float* weight,
                         float* loss, float* total_weight) {
  const BadRow bad_row;
  check_targets(s, target, bad_row);
  ReduceShape rows;
  rows.reduced_rank = 1, rows.reduced_size[0] = s.n, rows.reduced_stride[0] = 1;
  float* const each = s.reduction == Reduction::none ? loss : nullptr;
  ordered_reduce(rows, TermsOp{s, x, target, weight, bad_row.on_device(), each},
                 StoreLoss{s.reduction, s.n, bad_row.on_device(), loss, total_weight});
  return bad_row.result(s.n);
}

ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void backward_kernel(NllShape s, Divider classes, const float* dy,
                                                                     const std::int64_t* target, const float* weight,
                                                                     const float* total_weight,
                                                                     const std::int64_t* bad_row, float* dx) {
  const std::int64_t at = block_index() * kThreads + thread_index();
  if (at >= s.n * s.classes || *bad_row < s.n) return;
  const std::int64_t i = classes.quotient(at), t = target[i];
  float gradient = 0.0f;
  if (t != s.ignore_index && at - i * s.classes == t) {
    const float g = s.reduction == Reduction::none ? dy[i] : s.reduction == Reduction::mean ? *dy / *total_weight : *dy;
    gradient = weight != nullptr ? -(weight[t] * g) : -g;
  }
  dx[at] = gradient;
}

std::int64_t nll_backward(const NllShape& s, const float* dy, const std::int64_t* target, const float* weight,
                          const float* total_weight, float* dx) {
  const BadRow bad_row;
  check_targets(s, target, bad_row);
  const std::int64_t count = s.n * s.classes;
  launch(backward_kernel, {ceil_div(count, kThreads), kThreads}, s, Divider(s.classes, count), dy, target, weight,
         total_weight, bad_row.on_device(), dx);
  return bad_row.result(s.n);
}

}  // namespace

void fill_loss(KernelTable& t) {
  t.nll_forward = nll_forward;
  t.nll_backward = nll_backward;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
