// Where the time of a step goes: outermost operators by name, stock beside isobit.
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "bench/bench.h"
#include "bench/workload.h"

namespace isobit::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Of the calling thread, while a Watch lives.
struct Outermost {
  int depth = 0;
  Clock::time_point start;
  std::map<std::string, double>* times = nullptr;  // ms
};
thread_local Outermost outermost;

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) {
  if (outermost.depth++ == 0) outermost.start = Clock::now();
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (--outermost.depth > 0 || outermost.times == nullptr) return;
  const std::chrono::duration<double, std::milli> took = Clock::now() - outermost.start;
  std::string name = function.name();
  const std::string engine = "autograd::engine::evaluate_function: ";
  if (name.rfind(engine, 0) == 0) name = name.substr(engine.size());
  (*outermost.times)[name] += took.count();
}

// Adds what the thread's outermost operators take to `times`.
class Watch {
 public:
  explicit Watch(std::map<std::string, double>& times)
      : handle_(
            at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                           .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}))) {
    outermost = {0, {}, &times};
  }
  ~Watch() {
    outermost.times = nullptr;
    at::removeCallback(handle_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  at::CallbackHandle handle_;
};

using Samples = std::map<std::string, std::vector<double>>;

void add(Samples& samples, const std::map<std::string, double>& times) {
  for (const auto& [name, ms] : times) samples[name].push_back(ms);
}

constexpr int kStepsInARow = 4;  // of a side; the last is looked at, with what the ones before left in the caches

template <class Backward, class Optimizer>
double one_step(Samples& samples, Backward backward, Optimizer optimizer) {
  std::map<std::string, double> times;
  const auto start = Clock::now();
  {
    const Watch watch(times);
    backward();
  }
  const auto middle = Clock::now();
  optimizer();
  const std::chrono::duration<double, std::milli> tail = Clock::now() - middle, all = Clock::now() - start;
  double known = tail.count();
  for (const auto& [name, ms] : times) known += ms;
  times["optimizer"] = tail.count();
  times["between operators"] = all.count() - known;
  add(samples, times);
  return all.count();
}

double median(const Samples& samples, const std::string& name) {
  const auto found = samples.find(name);
  return found == samples.end() ? 0 : quantile(found->second, 0.5);
}

}  // namespace

std::vector<ProfileRow> bench_profile(const BenchOptions& options) {
  std::vector<ProfileRow> rows;
  for (const std::string& name : options.models) {
    const Workload work = workload(name);
    for_each_setting(options, [&](int threads, const std::string& isa) {
      BenchSide stock(work, channels_last_is_faster(work, threads, false)), ours(work, false);
      Samples stock_samples, our_samples;
      for (int round = -1; round < options.rounds; ++round) {
        Samples warm_up;
        on_stock(threads, [&] {
          for (int i = 1; i < kStepsInARow; ++i) stock.stock_step();
          return one_step(
              round < 0 ? warm_up : stock_samples, [&] { stock.backward(); }, [&] { stock.stock_optimizer(); });
        });
        on_isobit(threads, [&] {
          for (int i = 1; i < kStepsInARow; ++i) ours.isobit_step();
          return one_step(
              round < 0 ? warm_up : our_samples, [&] { ours.backward(); }, [&] { ours.isobit_optimizer(); });
        });
      }
      Samples names = stock_samples;
      names.insert(our_samples.begin(), our_samples.end());
      std::vector<ProfileRow> found;
      for (const auto& [op, unused] : names)
        found.push_back({name, threads, isa, op, median(stock_samples, op), median(our_samples, op)});
      std::sort(found.begin(), found.end(),
                [](const ProfileRow& a, const ProfileRow& b) { return a.isobit_ms > b.isobit_ms; });
      rows.insert(rows.end(), found.begin(), found.end());
    });
  }
  return rows;
}

}  // namespace isobit::bench
