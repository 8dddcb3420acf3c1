// Runs each of the main kernels once under callgrind, which counts its instructions: a kernel that got slower shows
// without a clock, on any busy machine (scripts/instructions).
//
// One thread, the sizes of tuning.h's defaults, inputs by Philox. Each case runs once before it is counted, so that
// tables and workspaces exist. Needs valgrind's headers; without them the program is not built.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "golden/inputs.h"
#include "kernels/batch_norm.h"
#include "kernels/conv2d.h"
#include "kernels/exact_sum.h"
#include "kernels/fingerprint.h"
#include "kernels/group_norm.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/optimizer.h"
#include "kernels/pointwise.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/softmax.h"
#include "kernels/threads.h"
#include "kernels/tuning.h"

namespace {

using namespace isobit;
using kernels::Isa;
using Floats = std::vector<float>;

struct Counted {
  std::string name;
  std::function<void()> run;
  bool also_by_reference = false;
};

Floats values(std::int64_t n, std::uint64_t key = 7) { return golden::uniform(key, n); }
Floats zeros(std::int64_t n) { return Floats(static_cast<std::size_t>(n)); }

// c [m, n] = a [m, k] b; transposed: b is [n, k].
Counted product(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, bool transposed) {
  const std::string name = "matmul." + std::to_string(batch) + "x" + std::to_string(m) + "x" + std::to_string(n) + "x" +
                           std::to_string(k) + (transposed ? "t" : "");
  return {name,
          [=, a = values(batch * m * k), b = values(batch * k * n, 8), c = zeros(batch * m * n)]() mutable {
            kernels::MatmulProblem p;
            p.batch = batch, p.m = m, p.n = n, p.k = k;
            p.a = {a.data(), m * k, k, 1};
            p.b = {b.data(), k * n, transposed ? 1 : n, transposed ? k : 1};
            p.c = c.data(), p.c_batch_stride = m * n, p.c_row_stride = n;
            kernels::matmul(p);
          },
          m == 64};
}

void add_convolution(std::vector<Counted>& cases, const std::string& name, const kernels::Conv2dShape& s) {
  const std::int64_t in = s.n * s.ci * s.h * s.w, out = s.n * s.co * s.out_h() * s.out_w();
  const std::int64_t weights = s.co * (s.ci / s.groups) * s.kh * s.kw;
  const Floats x = values(in), weight = values(weights, 8), dy = values(out, 9);
  cases.push_back({"conv2d_forward." + name, [=, y = zeros(out)]() mutable {
                     kernels::conv2d_forward(s, x.data(), weight.data(), nullptr, y.data());
                   }});
  cases.push_back({"conv2d_input_gradient." + name, [=, dx = zeros(in)]() mutable {
                     kernels::conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
                   }});
  cases.push_back({"conv2d_weight_gradient." + name, [=, dw = zeros(weights)]() mutable {
                     kernels::conv2d_weight_gradient(s, x.data(), dy.data(), dw.data());
                   }});
}

void add_normalizations(std::vector<Counted>& cases) {
  constexpr std::int64_t kRows = 64, kSize = 256;
  const Floats x = values(kRows * kSize), weight = values(kSize, 8), bias = values(kSize, 9);
  cases.push_back({"softmax",
                   [=, y = zeros(kRows * kSize)]() mutable {
                     kernels::softmax({kRows, kSize, 1}, x.data(), y.data());
                   },
                   true});
  cases.push_back({"log_softmax", [=, y = zeros(kRows * kSize)]() mutable {
                     kernels::log_softmax({kRows, kSize, 1}, x.data(), y.data());
                   }});
  cases.push_back(
      {"group_norm", [=, y = zeros(kRows * kSize), mean = zeros(kRows), invstd = zeros(kRows)]() mutable {
         kernels::group_norm(
             {{kRows, kSize, 1, 1}, x.data(), weight.data(), bias.data(), y.data(), mean.data(), invstd.data()});
       }});
  cases.push_back({"batch_norm_training",
                   [=, y = zeros(kRows * kSize), mean = zeros(16), variance = zeros(16), saved = zeros(32)]() mutable {
                     kernels::batch_norm_training({{64, 16, 16},
                                                   x.data(),
                                                   weight.data(),
                                                   bias.data(),
                                                   mean.data(),
                                                   variance.data(),
                                                   y.data(),
                                                   saved.data(),
                                                   saved.data() + 16});
                   }});
  cases.push_back({"sum_rows",
                   [=, y = zeros(kRows)]() mutable {
                     kernels::ReduceShape s;
                     s.kept_rank = s.reduced_rank = 1;
                     s.kept_size[0] = kRows, s.kept_stride[0] = kSize, s.reduced_size[0] = kSize,
                     s.reduced_stride[0] = 1;
                     kernels::sum(s, x.data(), y.data());
                   },
                   true});
}

void add_elementwise(std::vector<Counted>& cases) {
  constexpr std::int64_t n = 1 << 14;
  const Floats x = values(n), g = values(n, 8);
  using kernels::Unary;
  for (const auto& [name, op] :
       {std::pair("exp", Unary::exp), std::pair("log", Unary::log), std::pair("tanh", Unary::tanh),
        std::pair("sigmoid", Unary::sigmoid), std::pair("sqrt", Unary::sqrt)})
    cases.push_back(
        {name, [=, y = zeros(n)]() mutable { kernels::unary(op, x.data(), y.data(), n); }, op == Unary::exp});
  cases.push_back(
      {"add_scaled", [=, y = zeros(n)]() mutable { kernels::add_scaled(x.data(), g.data(), 0.5f, y.data(), n); }});
  cases.push_back({"sgd_step", [=, p = values(n, 9), b = zeros(n)]() mutable {
                     kernels::sgd_step({0.1, 0.9}, false, p.data(), g.data(), b.data(), n);
                   }});
  cases.push_back({"adam_step", [=, p = values(n, 9), m = zeros(n), v = zeros(n)]() mutable {
                     kernels::adam_step({}, 2, p.data(), g.data(), m.data(), v.data(), n);
                   }});
  cases.push_back(
      {"fill_normal", [=, y = zeros(n)]() mutable { kernels::fill_normal(3, 0, 0.0f, 1.0f, y.data(), n); }});
  cases.push_back({"dropout", [=, y = zeros(n)]() mutable { kernels::dropout(3, 0, 0.5, x.data(), y.data(), n); }});
  cases.push_back({"fingerprint", [=] { (void)kernels::element_sums(x.data(), 0, n); }});
  cases.push_back({"add_digits", [=, hi = std::vector<std::int64_t>(n), lo = std::vector<std::int64_t>(n)]() mutable {
                     kernels::add_digits(x.data(), kernels::top_limb(x.data(), n), hi.data(), lo.data(), n);
                   }});
  cases.push_back({"sum_terms", [=, y = zeros(n)]() mutable {
                     const float* const terms[] = {x.data(), g.data()};
                     kernels::sum_terms(terms, 2, kernels::top_limb(x.data(), n), y.data(), n);
                   }});
}

std::vector<Counted> all_cases() {
  std::vector<Counted> cases;
  for (const bool transposed : {false, true}) {
    cases.push_back(product(1, 64, 64, 64, transposed));
    cases.push_back(product(1, 200, 200, 600, transposed));
    cases.push_back(product(1, 4, 256, 256, transposed));
    cases.push_back(product(8, 48, 48, 32, transposed));
  }
  add_convolution(cases, "3x3", {2, 16, 16, 16, 16, 3, 3, 1, 1, 1, 1});
  add_convolution(cases, "5x5", {4, 1, 28, 28, 6, 5, 5});
  add_convolution(cases, "1x1_stride2", {2, 16, 16, 16, 32, 1, 1, 2, 2});
  add_convolution(cases, "depthwise", {2, 32, 12, 12, 32, 3, 3, 1, 1, 1, 1, 1, 1, 32});
  add_normalizations(cases);
  add_elementwise(cases);
  return cases;
}

}  // namespace

int main(int count, char**) {
  if (count > 1) {  // whatever the word: which compiler the counts belong to
    std::puts(__VERSION__);
    return 0;
  }
  kernels::set_thread_count(1);
  kernels::set_tuning({});
  for (const Isa isa : {Isa::reference, Isa::avx2}) {
    if (!kernels::isa_available(isa)) continue;
    const kernels::IsaScope scope(isa);
    for (const Counted& each : all_cases()) {
      if (isa == Isa::reference && !each.also_by_reference) continue;
      each.run();
      CALLGRIND_TOGGLE_COLLECT;
      each.run();
      CALLGRIND_TOGGLE_COLLECT;
      const std::string name = std::string(kernels::name(isa)) + " " + each.name;
      CALLGRIND_DUMP_STATS_AT(name.c_str());
    }
  }
  return 0;
}
