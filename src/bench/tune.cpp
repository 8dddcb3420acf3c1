// isobit tune: the measuring. Speed only; the bits stay.
#include "bench/tune.h"

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>

#include "archive/tuning_file.h"
#include "archive/tuning_text.h"
#include "archive/user_error.h"
#include "bench/timing.h"
#include "contract/philox.h"
#include "kernels/conv2d.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/threads.h"
#include "process/stop_signal.h"
#include "process/terminal_line.h"
#include "train/execution_options.h"

namespace isobit::bench {
namespace {

using kernels::Tuning;

constexpr double kWorthIt = 0.98;  // a candidate is taken where it saves 2 % or more

std::vector<float> values(std::int64_t n) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(contract::random_word(7, i) >> 8) * 0x1p-24f - 0.5f;
  return x;
}

// Products and convolutions as networks have them.
class Work {
 public:
  Work() {
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{768, 768, 768}, {64, 512, 784}, {784, 512, 64}, {1800, 768, 192}})
      add_product(m, n, k);
    for (const auto& [n, c, size] :
         {std::array<std::int64_t, 3>{8, 64, 32}, {16, 64, 16}, {16, 128, 8}, {2, 64, 56}, {32, 6, 14}})
      add_convolution(n, c, size);
  }

  // Time under `candidate` over that under `before`: the median of interleaved rounds for every item, their geometric
  // mean.
  [[nodiscard]] double ratio(const Tuning& candidate, const Tuning& before, int rounds) const {
    const auto timed = [](const std::function<void()>& item, const Tuning& sizes) {
      kernels::set_tuning(sizes);
      return milliseconds(item, 1);
    };
    double log_sum = 0;
    for (const auto& item : items_) {
      item();
      std::vector<double> ratios;
      for (int round = 0; round < rounds; ++round) {
        const double first = timed(item, round % 2 == 0 ? before : candidate),
                     second = timed(item, round % 2 == 0 ? candidate : before);
        ratios.push_back(round % 2 == 0 ? second / first : first / second);
      }
      log_sum += std::log(quantile(ratios, 0.5));
    }
    return std::exp(log_sum / static_cast<double>(items_.size()));
  }

 private:
  void add_product(std::int64_t m, std::int64_t n, std::int64_t k) {
    items_.push_back([m, n, k, a = values(m * k), b = values(k * n), c = std::make_shared<std::vector<float>>(m * n)] {
      kernels::MatmulProblem p;
      p.m = m, p.n = n, p.k = k;
      p.a.data = a.data(), p.a.row_stride = k, p.a.column_stride = 1;
      p.b.data = b.data(), p.b.row_stride = n, p.b.column_stride = 1;
      p.c = c->data(), p.c_row_stride = n, p.c_column_stride = 1;
      kernels::matmul(p);
    });
  }
  void add_convolution(std::int64_t n, std::int64_t c, std::int64_t size) {
    kernels::Conv2dShape s;
    s.n = n, s.ci = c, s.h = size, s.w = size, s.co = c, s.kh = 3, s.kw = 3, s.pad_h = 1, s.pad_w = 1;
    const std::int64_t count = n * c * size * size;
    items_.push_back([s, x = values(count), w = values(c * c * 9), y = std::make_shared<std::vector<float>>(count),
                      g = std::make_shared<std::vector<float>>(c * c * 9)] {
      kernels::conv2d_forward(s, x.data(), w.data(), nullptr, y->data());
      kernels::conv2d_input_gradient(s, x.data(), w.data(), y->data());
      kernels::conv2d_weight_gradient(s, x.data(), x.data(), g->data());
    });
  }
  std::vector<std::function<void()>> items_;
};

void progress(const std::string& text) {
  if (process::rewrites_lines()) fmt::print(stderr, "\r\x1b[K{}", process::fitted(text));
}

// One size after the other, each at a half and twice its value as long as that gains.
Tuning search(const Work& work, const TuneOptions& options, const std::atomic<bool>& stop, double& gain) {
  Tuning best;
  gain = 1;
  for (const kernels::TuningKey& key : kernels::tuning_keys()) {
    for (const double factor : {0.5, 2.0}) {
      for (int turn = 0; turn < 4 && !stop; ++turn) {
        Tuning candidate = best;
        const auto value = static_cast<std::int64_t>(static_cast<double>(best.*key.member) * factor);
        candidate.*key.member = std::clamp(value, key.least, key.most);
        if (candidate == best) break;
        progress(fmt::format("{} {}: {:.1f} % saved so far", key.name, candidate.*key.member, 100 * (1 - gain)));
        const double change = work.ratio(candidate, best, options.rounds);
        if (change > kWorthIt) break;
        best = candidate;
        gain *= change;
      }
    }
  }
  progress("");
  if (best == Tuning{} || stop) return best;
  gain = work.ratio(best, Tuning{}, 3 * options.rounds);  // measured anew: the best of many is flattered
  if (gain <= kWorthIt) return best;
  gain = 1;
  return {};
}

}  // namespace

int tune(const TuneOptions& options) {
  train::ExecutionOptions execution;
  execution.threads = options.threads, execution.isa = options.isa;
  execution.apply();
  const std::filesystem::path path = options.out.empty() ? archive::tuning_path() : std::filesystem::path(options.out);
  if (path.empty())
    throw archive::UserError("--out", "no folder for the table is known, since HOME is not set",
                             "name a file with --out");
  if (!options.dry_run) archive::expect_writable_tuning(path);  // before minutes are spent
  const process::StopSignal stop;
  const Work work;
  double gain = 1;
  const Tuning found = search(work, options, stop.flag(), gain);
  if (stop.flag()) {
    fmt::print(stderr, "isobit: interrupted; nothing written\n");
    return process::kInterruptedExit;
  }
  if (!options.dry_run) archive::write_tuning(path, found);
  archive::print_tuning(found, {.file = options.dry_run ? "" : path.string(),
                                .saved = 1 - gain,
                                .measured = true,
                                .threads = kernels::thread_count(),
                                .isa = std::string(kernels::name(kernels::active_isa())),
                                .json = options.json});
  return 0;
}
}  // namespace isobit::bench
