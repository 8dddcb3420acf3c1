// binary64 with this instruction set's fused multiply-add, which code for any machine calls the C library for: formulas
// as the reference writes them, in loops that the compiler turns into vectors (flags of its own:
// src/kernels/CMakeLists.txt), and sums and softmax of rows that lie in order. All else is the reference's.
#include "contract/functions_binary64.h"
#include "contract/lane_sum.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/activation_kernels.h"
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

using contract::kLeaf;
using contract::kSumLanes;

template <std::int64_t smallest>  // elements worth a thread
struct LoopMap {
  template <class Formula, class... Input>
  static void run(Formula formula, double* y, std::int64_t n, const Input*... inputs) {
    parallel_for(0, n, smallest, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = formula(inputs[i]...);
    });
  }
};

// As contract::LaneSumOf, of n elements side by side.
double sum_of_row(const double* p, std::int64_t n) {
  contract::PairwiseTreeOf<double> tree;
  for (std::int64_t first = 0; first < n; first += kLeaf) {
    const std::int64_t end = n < first + kLeaf ? n : first + kLeaf;
    double lane[kSumLanes] = {};
    std::int64_t i = first;
    for (; i + kSumLanes <= end; i += kSumLanes)
      for (std::int64_t l = 0; l < kSumLanes; ++l) lane[l] = lane[l] + p[i + l];
    for (std::int64_t l = 0; i + l < end; ++l) lane[l] = lane[l] + p[i + l];
    tree.add(contract::fold_lanes(lane));
  }
  return tree.result() + 0.0;
}

constexpr std::int64_t kWorthAThread = 4096;  // elements

// Rows that lie one after the other are reduced, all their elements in order.
bool are_rows(const ReduceShape& s) {
  std::int64_t stride = 1;
  for (int d = s.reduced_rank - 1; d >= 0; stride *= s.reduced_size[d--])
    if (s.reduced_size[d] != 1 && s.reduced_stride[d] != stride) return false;
  for (int d = s.kept_rank - 1; d >= 0; stride *= s.kept_size[d--])
    if (s.kept_size[d] != 1 && s.kept_stride[d] != stride) return false;
  return true;
}
template <class Finish>
void reduce_rows(const ReduceShape& s, const double* x, double* out, Finish finish) {
  const std::int64_t n = s.reduced_count();
  parallel_for(0, s.kept_count(), kWorthAThread / (n + 1) + 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) out[o] = finish(sum_of_row(x + o * n, n));
  });
}
void sum(const ReduceShape& s, const double* x, double* out) {
  if (!are_rows(s)) return host_table_of(Isa::reference).sum(s, x, out);
  reduce_rows(s, x, out, [](double total) { return total; });
}
void mean(const ReduceShape& s, const double* x, double* out) {
  if (!are_rows(s)) return host_table_of(Isa::reference).mean(s, x, out);
  const auto count = static_cast<double>(s.reduced_count());
  reduce_rows(s, x, out, [=](double total) { return total / count; });
}

// each(x, y) for the rows of a softmax over the last dimension.
template <class Each>
void for_rows(const SoftmaxShape& s, const double* x, double* y, Each each) {
  parallel_for(0, s.outer, kWorthAThread / 8 / (s.size + 1) + 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) each(x + row * s.size, y + row * s.size);
  });
}
double largest_of_row(const double* x, std::int64_t n) {
  double m = -contract::binary64::kInfinity;
  for (std::int64_t i = 0; i < n; ++i) m = contract::maximum(m, x[i]);
  return m;
}
void exponentials(const double* x, double m, std::int64_t n, double* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = contract::exp(x[i] - m);
}
void softmax(const SoftmaxShape& s, const double* x, double* y) {
  if (s.inner != 1) return host_table_of(Isa::reference).softmax(s, x, y);
  for_rows(s, x, y, [n = s.size](const double* from, double* to) {
    exponentials(from, largest_of_row(from, n), n, to);
    const double sum = sum_of_row(to, n);
    for (std::int64_t i = 0; i < n; ++i) to[i] = to[i] / sum;
  });
}
void log_softmax(const SoftmaxShape& s, const double* x, double* y) {
  if (s.inner != 1 || x == y) return host_table_of(Isa::reference).log_softmax(s, x, y);
  for_rows(s, x, y, [n = s.size](const double* from, double* to) {
    const double m = largest_of_row(from, n);
    exponentials(from, m, n, to);
    const double log_sum = contract::log(sum_of_row(to, n));
    for (std::int64_t i = 0; i < n; ++i) to[i] = (from[i] - m) - log_sum;
  });
}

}  // namespace

// What the list calls binary64 families are the reference's (kernel_list.h); these take their places.
void fill_binary64(HostTable& t) {
  PointwiseKernels<LoopMap<1024>, double>::fill(t);
  ActivationKernels<LoopMap<1024>, double>::fill(t);
  t.sum = sum;
  t.mean = mean;
  t.softmax = softmax;
  t.log_softmax = log_softmax;
}

}  // namespace isobit::kernels::ISOBIT_ISA
