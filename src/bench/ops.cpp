// Operators one by one, stock PyTorch against isobit, through PyTorch's own dispatcher on both sides.
#include "bench/bench.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>

#include "archive/user_error.h"
#include "aten/operator_switch.h"
#include "bench/machine_peak.h"

namespace isobit::bench {
namespace {

struct Case {
  std::string name;
  double gflop;
  std::function<void()> call;
  double gbytes;  // read and written at least
};

double gbytes_of(std::initializer_list<at::Tensor> tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return 1e-9 * bytes;
}

at::Tensor random(at::IntArrayRef sizes) { return at::randn(sizes); }

void add_products(std::vector<Case>& cases) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{64, 64, 64},
                                {128, 128, 128},
                                {256, 256, 256},
                                {512, 512, 512},
                                {1024, 1024, 1024},
                                {2048, 2048, 2048},
                                {64, 512, 784},
                                {64, 784, 512},
                                {1, 1024, 1024}}) {
    auto a = random({m, k}), b = random({k, n}), out = at::empty({m, n});
    cases.push_back({"mm " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
                     2e-9 * static_cast<double>(m * n * k), [=]() mutable { at::mm_out(out, a, b); },
                     gbytes_of({a, b, out})});
  }
}

// The three products of a linear layer, of its rows and features.
void add_layers(std::vector<Case>& cases) {
  for (const auto& [rows, in, out] : {std::array<int64_t, 3>{1, 784, 512},
                                      {1, 1024, 4096},
                                      {4, 1024, 1024},
                                      {16, 1024, 1024},
                                      {64, 1024, 1024},
                                      {256, 768, 3072},
                                      {256, 3072, 768},
                                      {3200, 192, 768},
                                      {3200, 768, 192}}) {
    auto x = random({rows, in}), w = random({out, in}), dy = random({rows, out});
    const std::string shape = " " + std::to_string(rows) + " of " + std::to_string(in) + "->" + std::to_string(out);
    const double gflop = 2e-9 * static_cast<double>(rows * in * out), gbytes = gbytes_of({x, w, dy});
    cases.push_back({"mm x w^T" + shape, gflop, [=] { at::mm(x, w.t()); }, gbytes});
    if (rows < 64) continue;
    cases.push_back({"mm dy w" + shape, gflop, [=] { at::mm(dy, w); }, gbytes});
    cases.push_back({"mm dy^T x" + shape, gflop, [=] { at::mm(dy.t(), x); }, gbytes});
  }
}

struct ConvolutionCase {
  int64_t n, ci, size, co, kernel, stride, pad;
};

void add_convolutions(std::vector<Case>& cases) {
  for (const auto& c : {ConvolutionCase{64, 1, 28, 6, 5, 1, 2},
                        {64, 6, 14, 16, 5, 1, 0},
                        {64, 64, 32, 64, 3, 1, 1},
                        {64, 128, 16, 128, 3, 1, 1},
                        {64, 256, 8, 256, 3, 1, 1},
                        {64, 512, 4, 512, 3, 1, 1},
                        {8, 64, 56, 64, 3, 1, 1},
                        {8, 128, 28, 128, 3, 1, 1},
                        {8, 3, 224, 64, 7, 2, 3},
                        {8, 64, 56, 128, 1, 2, 0}}) {
    auto x = random({c.n, c.ci, c.size, c.size}), w = random({c.co, c.ci, c.kernel, c.kernel});
    const int64_t out = (c.size + 2 * c.pad - c.kernel) / c.stride + 1;
    auto dy = random({c.n, c.co, out, out});
    const double gflop = 2e-9 * static_cast<double>(c.n * c.co * out * out * c.ci * c.kernel * c.kernel);
    const std::string shape = " " + std::to_string(c.n) + "x" + std::to_string(c.ci) + "x" + std::to_string(c.size) +
                              "->" + std::to_string(c.co) + " k" + std::to_string(c.kernel) + " s" +
                              std::to_string(c.stride);
    const std::vector<int64_t> stride{c.stride, c.stride}, pad{c.pad, c.pad}, one{1, 1}, zero{0, 0};
    const double gbytes = gbytes_of({x, w, dy});
    cases.push_back(
        {"conv2d" + shape, gflop, [=] { at::convolution(x, w, {}, stride, pad, one, false, zero, 1); }, gbytes});
    const auto backward = [=](std::array<bool, 3> mask) {
      at::convolution_backward(dy, x, w, c10::nullopt, stride, pad, one, false, zero, 1, mask);
    };
    cases.push_back({"conv2d input gradient" + shape, gflop, [=] { backward({true, false, false}); }, gbytes});
    cases.push_back({"conv2d weight gradient" + shape, gflop, [=] { backward({false, true, false}); }, gbytes});
  }
}

struct AttentionCase {
  int64_t batch, heads, rows, width;
};

// The parts of attention, and the whole.
void add_attention(std::vector<Case>& cases) {
  for (const auto& c : {AttentionCase{16, 3, 50, 64}, {1, 12, 256, 64}}) {
    auto q = random({c.batch, c.heads, c.rows, c.width}), k = random({c.batch, c.heads, c.rows, c.width});
    auto v = random({c.batch, c.heads, c.rows, c.width}), scores = random({c.batch, c.heads, c.rows, c.rows});
    const std::string shape =
        " " + std::to_string(c.batch * c.heads) + "x" + std::to_string(c.rows) + "x" + std::to_string(c.width);
    const double gflop = 2e-9 * static_cast<double>(c.batch * c.heads * c.rows * c.rows * c.width);
    const auto three = [](const at::Tensor& x) { return x.flatten(0, 1); };
    cases.push_back(
        {"bmm q k^T" + shape, gflop, [=] { at::bmm(three(q), three(k).transpose(1, 2)); }, gbytes_of({q, k, scores})});
    cases.push_back({"bmm p v" + shape, gflop, [=] { at::bmm(three(scores), three(v)); }, gbytes_of({scores, v, q})});
    cases.push_back({"bmm p^T v" + shape, gflop, [=] { at::bmm(three(scores).transpose(1, 2), three(v)); },
                     gbytes_of({scores, v, q})});
    cases.push_back({"softmax of scores" + shape, 0, [=] { at::softmax(scores, -1); }, gbytes_of({scores, scores})});
    cases.push_back(
        {"attention" + shape, 2 * gflop, [=] { at::scaled_dot_product_attention(q, k, v); }, gbytes_of({q, k, v, q})});
  }
}

void add_the_rest(std::vector<Case>& cases) {
  auto image = random({64, 64, 32, 32});
  const double pass = gbytes_of({image});
  auto weight = at::ones({64}), bias = at::zeros({64}), mean = at::zeros({64}), variance = at::ones({64});
  cases.push_back({"batch norm training 64x64x32x32", 0,
                   [=] { at::native_batch_norm(image, weight, bias, mean, variance, true, 0.1, 1e-5); }, pass * 3});
  const auto [y, saved_mean, saved_invstd] =
      at::native_batch_norm(image, weight, bias, mean, variance, true, 0.1, 1e-5);
  cases.push_back(
      {"batch norm backward 64x64x32x32", 0,
       [=, m = saved_mean, s = saved_invstd] {
         at::native_batch_norm_backward(image, image, weight, mean, variance, m, s, true, 1e-5, {true, true, true});
       },
       pass * 5});
  cases.push_back({"max pool 2x2 64x64x32x32", 0,
                   [=] {
                     at::max_pool2d_with_indices(image, {2, 2}, {2, 2});
                   },
                   pass * 1.75});
  cases.push_back({"relu 64x64x32x32", 0, [=] { at::relu(image); }, pass * 2});
  cases.push_back({"sum over batch 64x64x32x32", 0, [=] { at::sum(image, {0, 2, 3}); }, pass});
  cases.push_back({"sum of all 64x64x32x32", 0, [=] { at::sum(image); }, pass});
  auto logits = random({64, 1000});
  auto vocabulary = random({256, 50257});
  cases.push_back(
      {"log softmax 256x50257", 0, [=] { at::log_softmax(vocabulary, 1); }, gbytes_of({vocabulary, vocabulary})});
  cases.push_back({"log softmax 64x1000", 0, [=] { at::log_softmax(logits, 1); }, gbytes_of({logits, logits})});
  cases.push_back({"exp 64x64x32x32", 0, [=] { at::exp(image); }, pass * 2});
  cases.push_back({"tanh 64x64x32x32", 0, [=] { at::tanh(image); }, pass * 2});
  cases.push_back({"sigmoid 64x64x32x32", 0, [=] { at::sigmoid(image); }, pass * 2});
}

}  // namespace

std::vector<BenchRow> bench_operators(const BenchOptions& options) {
  const at::NoGradGuard no_grad;
  at::manual_seed(0);
  std::vector<Case> cases;
  add_products(cases);
  add_layers(cases);
  add_convolutions(cases);
  add_attention(cases);
  add_the_rest(cases);
  std::erase_if(cases, [&](const Case& one) { return one.name.find(options.filter) == std::string::npos; });
  if (cases.empty()) {
    throw archive::UserError("--filter", "no operator's name contains '" + options.filter + "'",
                             "without it isobit bench ops measures all of them");
  }
  std::vector<BenchRow> rows;
  for (Case& one : cases) {
    for_each_setting(options, [&](int threads, const std::string& isa) {
      BenchRow row{.model = one.name, .threads = threads, .isa = isa, .gflop = one.gflop, .gbytes = one.gbytes};
      row.bound_ms = 1e3 * std::max(one.gflop / peak_gflops(threads, isa), one.gbytes / memory_gbytes(threads));
      measure(
          row, [&](int calls) { return on_stock(threads, [&] { return warm_milliseconds(one.call, calls); }); },
          [&](int calls) {
            return on_isobit(
                threads, [&] { return warm_milliseconds(one.call, calls); }, options.products);
          },
          options.rounds, 20.0);
      options.report(row);
      rows.push_back(row);
    });
  }
  return rows;
}

}  // namespace isobit::bench
