// Matrix products and convolutions against stock PyTorch in the same process, interleaved.
//
//   gemm_conv [--isa avx2|avx512|...] [--threads N] [--rounds N] [--only TEXT]
//
// One row per problem: GFLOP/s of isobit and of stock (for convolutions the better of its two memory
// layouts), medians over the rounds, their ratio (above 1: isobit is faster), and the middle half's spread of
// isobit's times in per cent. To hold stock to AVX2: ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2
// ONEDNN_MAX_CPU_ISA=AVX2.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "kernels/conv2d.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/threads.h"

namespace {

using namespace isobit::kernels;

struct Options {
  int rounds = 15;
  std::string only;
};

// With one thread its processor time: what other programs take from the core then does not count.
bool processor_time = true;

double now() {
  timespec t;
  clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds(const std::function<void()>& work) {
  const double begin = now();
  work();
  return now() - begin;
}

struct Timing {
  double median, spread;
};

Timing summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  return {times[n / 2], (times[n * 3 / 4] - times[n / 4]) / times[n / 2]};
}

// Rounds of each candidate in turn, so that a change of clock or load meets all alike.
void compare(const Options& options, const std::string& name, double flops, const std::function<void()>& ours,
             const std::vector<std::function<void()>>& stock) {
  if (name.find(options.only) == std::string::npos) return;
  const double once = std::max(1e-7, std::min(seconds(ours), seconds(ours)));
  for (const auto& s : stock) s();
  const int repeats = std::max(1, static_cast<int>(2e-3 / once));
  const auto timed = [&](const std::function<void()>& work) {
    return seconds([&] {
             for (int i = 0; i < repeats; ++i) work();
           }) /
           repeats;
  };
  std::vector<double> our_times;
  std::vector<std::vector<double>> stock_times(stock.size());
  for (int round = 0; round < options.rounds; ++round) {
    our_times.push_back(timed(ours));
    for (std::size_t i = 0; i < stock.size(); ++i) stock_times[i].push_back(timed(stock[i]));
  }
  const Timing mine = summary(our_times);
  double best = 1e30;
  for (const auto& times : stock_times) best = std::min(best, summary(times).median);
  std::printf("%-46s isobit %7.1f  stock %7.1f GFLOP/s  %8.3f ms  ratio %5.2f  spread %4.1f %%\n", name.c_str(),
              flops / mine.median * 1e-9, flops / best * 1e-9, mine.median * 1e3, best / mine.median,
              mine.spread * 100);
  std::fflush(stdout);
}

void gemm(const Options& options, std::int64_t m, std::int64_t n, std::int64_t k, bool a_transposed = false,
          bool b_transposed = false) {
  const at::Tensor a = a_transposed ? at::randn({k, m}).t() : at::randn({m, k});
  const at::Tensor b = b_transposed ? at::randn({n, k}).t() : at::randn({k, n});
  at::Tensor c = at::empty({m, n}), d = at::empty({m, n});
  const std::string name = "gemm " + std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                           (a_transposed ? " A'" : "") + (b_transposed ? " B'" : "");
  compare(options, name, 2.0 * m * n * k,
          [&] {
            MatmulProblem p;
            p.m = m, p.n = n, p.k = k;
            p.a = {a.data_ptr<float>(), 0, a.stride(0), a.stride(1)};
            p.b = {b.data_ptr<float>(), 0, b.stride(0), b.stride(1)};
            p.c = c.data_ptr<float>(), p.c_row_stride = n;
            matmul(p);
          },
          {[&] { at::mm_out(d, a, b); }});
}

// Small products in a batch, as of attention: a [batch, m, k], b transposed [batch, n, k] or [batch, k, n].
void batched(const Options& options, std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k,
             bool b_transposed) {
  const at::Tensor a = at::randn({batch, m, k});
  const at::Tensor b = b_transposed ? at::randn({batch, n, k}).transpose(1, 2) : at::randn({batch, k, n});
  at::Tensor c = at::empty({batch, m, n}), d = at::empty({batch, m, n});
  const std::string name = "batched " + std::to_string(batch) + " of " + std::to_string(m) + " x " + std::to_string(n) +
                           " x " + std::to_string(k) + (b_transposed ? " B'" : "");
  compare(options, name, 2.0 * batch * m * n * k,
          [&] {
            MatmulProblem p;
            p.batch = batch, p.m = m, p.n = n, p.k = k;
            p.a = {a.data_ptr<float>(), a.stride(0), a.stride(1), a.stride(2)};
            p.b = {b.data_ptr<float>(), b.stride(0), b.stride(1), b.stride(2)};
            p.c = c.data_ptr<float>(), p.c_batch_stride = m * n, p.c_row_stride = n;
            matmul(p);
          },
          {[&] { at::bmm_out(d, a, b); }});
}

void conv(const Options& options, std::int64_t n, std::int64_t ci, std::int64_t size, std::int64_t co,
          std::int64_t kernel, std::int64_t stride, std::int64_t pad, std::int64_t groups = 1) {
  Conv2dShape s;
  s.n = n, s.ci = ci, s.h = s.w = size, s.co = co, s.kh = s.kw = kernel;
  s.stride_h = s.stride_w = stride, s.pad_h = s.pad_w = pad, s.groups = groups;
  const at::Tensor x = at::randn({n, ci, size, size}), w = at::randn({co, ci / groups, kernel, kernel});
  const at::Tensor dy = at::randn({n, co, s.out_h(), s.out_w()});
  const auto last = at::MemoryFormat::ChannelsLast;
  const at::Tensor xl = x.contiguous(last), wl = w.contiguous(last), dyl = dy.contiguous(last);
  at::Tensor y = at::empty_like(dy), dx = at::empty_like(x), dw = at::empty_like(w);
  const std::vector<std::int64_t> strides{stride, stride}, pads{pad, pad}, ones{1, 1}, zeros{0, 0};
  const double flops = 2.0 * n * s.out_h() * s.out_w() * co * (ci / groups) * kernel * kernel;
  const std::string name = std::to_string(n) + "x" + std::to_string(ci) + "x" + std::to_string(size) + " -> " +
                           std::to_string(co) + ", " + std::to_string(kernel) + "x" + std::to_string(kernel) + " s" +
                           std::to_string(stride) + " p" + std::to_string(pad) + " g" + std::to_string(groups);
  const auto forward = [&](const at::Tensor& xs, const at::Tensor& ws) {
    return [&] { at::convolution(xs, ws, {}, strides, pads, ones, false, zeros, groups); };
  };
  const auto backward = [&](const at::Tensor& dys, const at::Tensor& xs, const at::Tensor& ws, bool input) {
    return [&, input] {
      at::convolution_backward(dys, xs, ws, std::nullopt, strides, pads, ones, false, zeros, groups,
                               {input, !input, false});
    };
  };
  compare(options, "forward " + name, flops,
          [&] { conv2d_forward(s, x.data_ptr<float>(), w.data_ptr<float>(), nullptr, y.data_ptr<float>()); },
          {forward(x, w), forward(xl, wl)});
  compare(options, "input   " + name, flops,
          [&] { conv2d_input_gradient(s, dy.data_ptr<float>(), w.data_ptr<float>(), dx.data_ptr<float>()); },
          {backward(dy, x, w, true), backward(dyl, xl, wl, true)});
  compare(options, "weight  " + name, flops,
          [&] { conv2d_weight_gradient(s, x.data_ptr<float>(), dy.data_ptr<float>(), dw.data_ptr<float>()); },
          {backward(dy, x, w, false), backward(dyl, xl, wl, false)});
}

void all(const Options& options) {
  for (std::int64_t size : {256, 512, 1024, 2048}) gemm(options, size, size, size);
  gemm(options, 64, 512, 784, false, true);  // a linear layer: forward, input gradient, weight gradient
  gemm(options, 64, 784, 512);
  gemm(options, 512, 784, 64, true, false);
  gemm(options, 64, 10, 512, false, true);
  gemm(options, 64, 120, 400, false, true);
  batched(options, 192, 50, 50, 64, true);  // attention of vit_tiny, and of a transformer over 28 rows
  batched(options, 192, 50, 64, 50, false);
  batched(options, 256, 28, 28, 32, true);
  batched(options, 256, 28, 32, 28, false);
  batched(options, 12, 256, 256, 64, true);  // of GPT-2
  batched(options, 12, 256, 64, 256, false);
  gemm(options, 1, 4096, 4096);
  gemm(options, 1, 4096, 4096, false, true);
  gemm(options, 1, 16, 512, false, true);
  gemm(options, 1, 128, 512, false, true);
  gemm(options, 1, 256, 512, false, true);
  gemm(options, 1, 512, 784, false, true);
  gemm(options, 4096, 1, 4096);
  conv(options, 64, 1, 28, 6, 5, 1, 2);  // LeNet-5
  conv(options, 64, 6, 14, 16, 5, 1, 0);
  conv(options, 8, 3, 32, 64, 3, 1, 1);  // ResNet-18 on small images
  conv(options, 8, 64, 32, 64, 3, 1, 1);
  conv(options, 8, 64, 32, 128, 3, 2, 1);
  conv(options, 8, 128, 16, 128, 3, 1, 1);
  conv(options, 8, 64, 32, 128, 1, 2, 0);
  conv(options, 8, 256, 8, 256, 3, 1, 1);
  conv(options, 8, 512, 4, 512, 3, 1, 1);
  for (const std::int64_t n : {1, 2}) {  // inference
    conv(options, n, 64, 32, 64, 3, 1, 1);
    conv(options, n, 64, 32, 128, 3, 2, 1);
    conv(options, n, 128, 16, 128, 3, 1, 1);
    conv(options, n, 256, 8, 256, 3, 1, 1);
    conv(options, n, 512, 4, 512, 3, 1, 1);
    conv(options, n, 64, 56, 64, 3, 1, 1);
    conv(options, n, 256, 14, 256, 3, 1, 1);
    conv(options, n, 512, 7, 512, 3, 1, 1);
  }
  conv(options, 64, 1, 32, 64, 3, 1, 1);
  conv(options, 64, 64, 32, 128, 1, 2, 0);
  conv(options, 64, 128, 16, 256, 1, 2, 0);
  conv(options, 64, 256, 8, 512, 1, 2, 0);
  conv(options, 64, 64, 32, 64, 3, 1, 1);  // and in batches that fill the lanes
  conv(options, 64, 64, 32, 128, 3, 2, 1);
  conv(options, 64, 128, 16, 128, 3, 1, 1);
  conv(options, 64, 128, 16, 256, 3, 2, 1);
  conv(options, 64, 256, 8, 256, 3, 1, 1);
  conv(options, 64, 256, 8, 512, 3, 2, 1);
  conv(options, 64, 512, 4, 512, 3, 1, 1);
  conv(options, 64, 32, 64, 32, 3, 1, 1);  // of a U-Net
  conv(options, 64, 64, 64, 32, 3, 1, 1);
  conv(options, 64, 128, 32, 64, 3, 1, 1);
  conv(options, 8, 64, 56, 64, 3, 1, 1);  // and on large ones
  conv(options, 8, 64, 56, 128, 3, 2, 1);
  conv(options, 8, 128, 28, 128, 3, 1, 1);
  conv(options, 8, 128, 28, 256, 3, 2, 1);
  conv(options, 8, 256, 14, 256, 3, 1, 1);
  conv(options, 8, 256, 14, 512, 3, 2, 1);
  conv(options, 8, 512, 7, 512, 3, 1, 1);
  conv(options, 8, 1, 224, 64, 7, 2, 3);
  conv(options, 8, 3, 224, 64, 7, 2, 3);
  conv(options, 8, 256, 14, 1024, 1, 1, 0);
  conv(options, 8, 128, 28, 128, 3, 1, 1, 128);  // depthwise
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--threads") threads = std::atoi(value.c_str());
    if (key == "--rounds") options.rounds = std::atoi(value.c_str());
    if (key == "--only") options.only = value;
    if (key == "--isa") {
      const auto isa = parse_isa(value);
      if (!isa || !isa_available(*isa))
        return std::fprintf(stderr, "no such instruction set here: %s\n", argv[i + 1]), 2;
      set_isa(*isa);
    }
  }
  processor_time = threads == 1;
  set_thread_count(threads);
  at::set_num_threads(threads);
  std::printf("isobit: %s, %d thread(s); stock: %s\n", std::string(name(active_isa())).c_str(), threads,
              at::get_cpu_capability().c_str());
  all(options);
  return 0;
}
