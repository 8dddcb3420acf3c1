// What a record costs: the trainer's steps without and with it, interleaved. Reading and augmenting are in both.
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "archive/run_writer.h"
#include "aten/operator_switch.h"
#include "bench/bench.h"
#include "bench/workload.h"
#include "contract/philox.h"
#include "process/stop_signal.h"
#include "samples/memory_samples.h"
#include "train/recording.h"

namespace isobit::bench {
namespace {

constexpr int kFingerprintEvery = 20;  // the experiment's default; a round is a multiple of it

class ScratchRuns {
 public:
  ScratchRuns() {
    std::string pattern = (std::filesystem::temp_directory_path() / "isobit-bench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw std::filesystem::filesystem_error("mkdtemp", pattern, std::error_code(errno, std::generic_category()));
    path_ = pattern;
  }
  ~ScratchRuns() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchRuns(const ScratchRuns&) = delete;
  ScratchRuns& operator=(const ScratchRuns&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Interrupted {};

bool per_pixel(const Workload& work) { return work.model.name == "unet"; }
bool is_text(const Workload& work) { return work.model.name == "gpt2"; }

// `count` little-endian integers of `element` bytes each: the last byte of value(i).
template <class Value>
std::vector<std::byte> made(std::int64_t count, std::size_t element, Value value) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * element);
  for (std::int64_t i = 0; i < count; ++i)
    bytes[static_cast<std::size_t>(i) * element] = static_cast<std::byte>(value(static_cast<std::uint64_t>(i)));
  return bytes;
}

train::DataSets random_samples(const Workload& work) {
  using samples::Element, samples::Role;
  const std::int64_t pixels = work.size * work.size, inputs = is_text(work) ? work.size : pixels;
  const std::int64_t labels = is_text(work) ? work.size : per_pixel(work) ? pixels : 1;
  samples::Field input{"images", Element::uint8, {1, work.size, work.size}, Role::input};
  samples::Field target{"labels", Element::int64, {}, Role::target};
  if (per_pixel(work)) target.shape = {work.size, work.size};
  if (is_text(work)) input = {"tokens", Element::int64, {work.size}, Role::input}, target.shape = {work.size};
  const auto samples_of = [&](std::int64_t n) {
    const auto word = [](std::uint64_t i) { return contract::random_word(1, i); };
    const auto label = [](std::uint64_t i) { return i % 10; };
    return std::make_shared<samples::MemorySamples>(
        std::vector{input, target},
        std::vector{made(n * inputs, is_text(work) ? 8 : 1, word), made(n * labels, 8, label)}, n, "random samples");
  };
  // The second is for evaluation: once an epoch at the most, never within the rounds.
  return {samples_of(work.batch * 16), samples_of(1), ""};
}

train::Experiment experiment_of(const Workload& work, bool recorded) {
  train::Experiment experiment;
  experiment.batch = work.batch;
  experiment.epochs = 1 << 20;  // more than any number of rounds
  experiment.model = work.model;
  if (per_pixel(work)) experiment.data.target = "mask";
  if (is_text(work)) experiment.data.format = "text", experiment.data.target = "next";
  experiment.optimizer.lr = 1e-4;
  experiment.optimizer.momentum = 0.9;
  if (!is_text(work)) experiment.augment.crop = 2, experiment.augment.flip = true;
  experiment.evaluate.every = 0;
  experiment.checkpoint.every = 1 << 30;
  experiment.fingerprint.every = recorded ? kFingerprintEvery : 0;
  return experiment;
}

struct Unrecorded : train::Listener {
  [[nodiscard]] bool wants_optimizer(const train::Timetable&, std::int64_t) const override { return false; }
  void on_step(const train::StepReport&) override {}
  void on_metrics(const train::MetricsReport&) override {}
  void on_checkpoint(const train::Trainer&) override {}
};

// Throws Interrupted once `stop` is set.
RecordingRow bench_one(const Workload& work, int threads, const std::string& isa, int rounds,
                       const std::atomic<bool>& stop) {
  const ScratchRuns runs;
  const train::DataSets data = random_samples(work);
  const train::Experiment with = experiment_of(work, true), without = experiment_of(work, false);
  train::Execution no_digests;
  no_digests.batch_digests = false;
  train::Trainer recorded(with, data), plain(without, data, no_digests);
  archive::RunWriter writer = archive::RunWriter::create(runs.path(), {"bench", train::to_toml(with), "{}", "{}"});
  train::Recorder recorder(writer, with);
  Unrecorded nothing;
  const auto per_step = [&](train::Trainer& trainer, train::Listener& listener, int steps) {
    return on_isobit(threads, [&] {
      const double ms = milliseconds([&] { train::execute(trainer, trainer.steps_done() + steps, listener, stop); }, 1);
      if (stop) throw Interrupted();
      return ms / steps;
    });
  };
  BenchRow row;
  // measure() counts calls; a call here is a cycle of steps between two fingerprints.
  measure(
      row, [&](int calls) { return kFingerprintEvery * per_step(plain, nothing, calls * kFingerprintEvery); },
      [&](int calls) { return kFingerprintEvery * per_step(recorded, recorder, calls * kFingerprintEvery); }, rounds,
      150.0);
  return {work.name,
          threads,
          isa,
          row.stock_ms / kFingerprintEvery,
          row.isobit_ms / kFingerprintEvery,
          row.median_of_ratios - 1,
          row.spread};
}

}  // namespace

RecordingRows bench_recording(const BenchOptions& options) {
  const process::StopSignal stop;
  RecordingRows result;
  try {
    for (const std::string& name : options.models) {
      for_each_setting(options, [&](int threads, const std::string& isa) {
        result.rows.push_back(bench_one(workload(name), threads, isa, options.rounds, stop.flag()));
      });
    }
  } catch (const Interrupted&) {
    result.interrupted = true;
  }
  return result;
}

}  // namespace isobit::bench
