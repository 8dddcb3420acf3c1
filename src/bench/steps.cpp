// Whole training steps: forward, cross entropy, backward, SGD with momentum.
#include "bench/bench.h"
#include "bench/bound.h"
#include "bench/disturbance.h"
#include "bench/machine_peak.h"
#include "bench/workload.h"

namespace isobit::bench {
namespace {

Workload with_batch(Workload work, std::int64_t batch) {
  work.batch = batch;
  return work;
}

BenchRow bench_one(const Workload& work, int threads, const std::string& isa, const BenchOptions& options,
                   bool inference) {
  BenchRow row{.model = work.name + (inference ? " inference, batch " + std::to_string(work.batch) : ""),
               .threads = threads,
               .isa = isa};
  BenchSide stock(work, channels_last_is_faster(work, threads, inference)), ours(work, false);
  if (inference) {
    stock.evaluation_mode();
    ours.evaluation_mode();
  }
  StepCost cost = cost_of([&] { stock.inference(); });
  cost.parameter_gbytes = stock.parameter_gbytes();
  const double gflops = peak_gflops(threads, isa), gbytes = memory_gbytes(threads);
  row.bound_ms = inference ? cost.inference_ms(gflops, gbytes) : cost.training_ms(gflops, gbytes);
  row.gflop = inference ? cost.forward_gflop : 3 * cost.forward_gflop - cost.first_gflop;
  measure(
      row,
      [&](int calls) {
        return on_stock(threads, [&] {
          return warm_milliseconds([&] { inference ? stock.inference() : stock.stock_step(); }, calls);
        });
      },
      [&](int calls) {
        return on_isobit(
            threads,
            [&] { return warm_milliseconds([&] { inference ? ours.inference() : ours.isobit_step(); }, calls); },
            options.products);
      },
      options.rounds, 150.0);
  return row;
}

}  // namespace

std::vector<BenchRow> bench_steps(const BenchOptions& options) {
  const Disturbance disturbance(options.disturb);
  std::vector<BenchRow> rows;
  for (const std::string& name : options.models) {
    const Workload work = workload(name);
    for_each_setting(options, [&](int threads, const std::string& isa) {
      const auto report = [&](const BenchRow& row) {
        rows.push_back(row);
        options.report(row);
      };
      if (!options.only_inference) report(bench_one(work, threads, isa, options, false));
      if (!options.inference && !options.only_inference) return;
      for (const std::int64_t batch : {1, 64}) report(bench_one(with_batch(work, batch), threads, isa, options, true));
    });
  }
  return rows;
}

}  // namespace isobit::bench
