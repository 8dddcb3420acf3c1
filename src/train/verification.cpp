#include "train/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "archive/printable.h"
#include "archive/user_error.h"
#include "contract/platform.h"
#include "train/arithmetic.h"
#include "train/checkpoint_state.h"
#include "train/recording.h"

namespace isobit::train {
namespace {

using archive::UserError;

// Ends the execution at the first difference.
struct Different {
  Difference difference;
};

std::string number(double x) { return fmt::format("{} ({:016x})", x, std::bit_cast<std::uint64_t>(x)); }

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (a != a && b != b);
}

class Comparer : public Listener {
 public:
  Comparer(const archive::RunRecord& record, Trainer& trainer, VerifyProgress progress, void* context,
           std::int64_t first, std::int64_t last)
      : record_(record), trainer_(trainer), progress_(progress), context_(context), first_(first), last_(last) {
    for (const archive::StepLine& line : record.steps()) steps_[line.step] = line;
    for (const archive::MetricsLine& line : record.metrics()) metrics_[{line.step, line.set}] = line;
    for (const archive::CheckpointEntry& entry : record.checkpoints()) checkpoints_[entry.step] = entry;
    unseen_ = metrics_.begin();
  }

  // Records of earlier versions have it with every fingerprint of the weights.
  [[nodiscard]] bool wants_optimizer(const Timetable& timetable, std::int64_t step) const override {
    const auto found = steps_.find(step);
    return Listener::wants_optimizer(timetable, step) || (found != steps_.end() && !found->second.optimizer.empty());
  }
  void on_step(const StepReport& report) override {
    step_ = report.result.place.step;
    judge([&] { compare(report); });
    if (progress_ != nullptr) progress_(context_, report, last_);
  }
  void on_metrics(const MetricsReport& report) override {
    if (step_ < first_) return;
    for (const archive::MetricsLine& line : metrics_lines(report)) repeated_.push_back(line);
    judge([&] {
      for (const archive::MetricsLine& line : metrics_lines(report)) compare_metrics(line);
      compare_predictions(predictions_line(report));
    });
  }
  // on_step compares those that were kept; of all that are due there is a line.
  void on_checkpoint(const Trainer& trainer) override {
    if (step_ < first_ || !trainer.timetable().checkpoint_after(step_)) return;  // the last one of an interrupted run
    judge([&] {
      if (record_.checkpoint_weights().count(step_) == 0) throw Different{{step_, "checkpoint", "none", "present"}};
    });
  }

  std::int64_t checkpoints = 0;  // compared

  // Compares; of a stock run the first difference is kept, and what comes after it is not looked at.
  template <class Compare>
  void judge(const Compare& compare) {
    if (kept_) return;
    try {
      compare();
    } catch (const Different& different) {
      if (!record_.is_stock()) throw;
      kept_ = different.difference;
    }
  }
  [[nodiscard]] const std::optional<Difference>& kept() const { return kept_; }
  [[nodiscard]] const std::vector<archive::MetricsLine>& repeated() const { return repeated_; }

  // Those recorded after steps up to `last` that nothing recomputed are a difference.
  void expect_metrics_seen(std::int64_t last) {
    for (; unseen_ != metrics_.end() && unseen_->first.first <= last; ++unseen_) {
      const auto& [place, line] = *unseen_;
      if (place.first < first_ || seen_metrics_.count(place)) continue;
      throw Different{{place.first, place.second + " metrics", "present", "none"}};
    }
  }

 private:
  void compare(const StepReport& report) {
    expect_metrics_seen(step_ - 1);
    if (step_ >= first_) compare_step(step_line(report));
    if (const auto found = checkpoints_.find(step_); found != checkpoints_.end() && step_ >= first_)
      compare_checkpoint(found->second);
    const auto& digests = record_.checkpoint_weights();
    if (const auto found = digests.find(step_); found != digests.end() && !found->second.empty() && step_ >= first_)
      expect_same("SHA-256 of the weights at the checkpoint", found->second, weights_sha256(trainer_));
  }

  void expect_same(const std::string& what, const std::string& recorded, const std::string& recomputed) {
    const auto or_none = [](const std::string& text) { return text.empty() ? std::string("none") : text; };
    if (recorded != recomputed) throw Different{{step_, what, or_none(recorded), or_none(recomputed)}};
  }

  void compare_step(const archive::StepLine& line) {
    const auto found = steps_.find(step_);
    if (found == steps_.end()) throw Different{{step_, "the step", "none", fmt::format("loss {:08x}", line.loss_bits)}};
    const archive::StepLine& recorded = found->second;
    expect_same("epoch", std::to_string(recorded.epoch), std::to_string(line.epoch));
    expect_same("batch", recorded.batch, line.batch);
    expect_same("loss", fmt::format("{:08x}", recorded.loss_bits), fmt::format("{:08x}", line.loss_bits));
    expect_same("gradients", recorded.gradients, line.gradients);
    expect_same("weights", recorded.weights, line.weights);
    expect_same("optimizer", recorded.optimizer, line.optimizer);
  }

  void compare_metrics(const archive::MetricsLine& line) {
    const auto found = metrics_.find({line.step, line.set});
    if (found == metrics_.end()) throw Different{{step_, line.set + " metrics", "none", "present"}};
    seen_metrics_.insert({line.step, line.set});
    const archive::MetricsLine& recorded = found->second;
    expect_same("epoch of the " + line.set + " metrics", std::to_string(recorded.epoch), std::to_string(line.epoch));
    expect_same(line.set + " metrics", std::to_string(recorded.values.size()) + " values",
                std::to_string(line.values.size()) + " values");
    for (const auto& [name, value] : line.values) {
      const auto old = recorded.values.find(name);
      if (old != recorded.values.end() && same_bits(old->second, value)) continue;
      throw Different{
          {step_, line.set + " " + name, old == recorded.values.end() ? "none" : number(old->second), number(value)}};
    }
  }

  // A record has a line for each evaluation, or none for any (archive/record_rules.h).
  void compare_predictions(const std::optional<archive::PredictionsLine>& line) {
    if (!line) return;
    const auto& all = record_.predictions().value();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.step == line->step; });
    if (found == all.end()) throw Different{{step_, "test predictions", "none", "present"}};
    expect_same("epoch of the test predictions", std::to_string(found->epoch), std::to_string(line->epoch));
    expect_same("classes of the test set", found->targets, line->targets);
    expect_same("number of test predictions", std::to_string(found->predictions.size()),
                std::to_string(line->predictions.size()));
    const auto [old, now] =
        std::mismatch(found->predictions.begin(), found->predictions.end(), line->predictions.begin());
    if (old == found->predictions.end()) return;
    throw Different{{step_, fmt::format("prediction of test sample {}", old - found->predictions.begin()),
                     std::to_string(*old), std::to_string(*now)}};
  }

  void compare_checkpoint(const archive::CheckpointEntry& entry) {
    ++checkpoints;
    const archive::Checkpoint checkpoint = record_.checkpoint(entry);
    const TrainingState state = trainer_.state();
    expect_same("checkpoint state", checkpoint.state(), checkpoint_text(state, trainer_.timetable()));
    expect_same("checkpoint", archive::plural(checkpoint.contents().metadata().size(), "text"), "1 text");
    const auto tensors = checkpoint_tensors(state);
    expect_same("checkpoint", std::to_string(checkpoint.contents().tensors().size()) + " tensors",
                std::to_string(tensors.size()) + " tensors");
    // Bit by bit: another segment may start from what is recorded here, and a fingerprint can be forged.
    for (const archive::TensorView& tensor : tensors) {
      const archive::TensorView* old = checkpoint.contents().find(tensor.name);
      if (old != nullptr && same_tensor(*old, tensor)) continue;
      throw Different{
          {step_, "checkpoint tensor " + tensor.name, old == nullptr ? "none" : describe(*old), describe(tensor)}};
    }
  }

  const archive::RunRecord& record_;
  Trainer& trainer_;
  VerifyProgress progress_;
  void* context_;
  std::int64_t first_, last_, step_ = 0;
  std::map<std::int64_t, archive::StepLine> steps_;
  std::map<std::pair<std::int64_t, std::string>, archive::MetricsLine> metrics_;
  decltype(metrics_)::const_iterator unseen_;  // those before are judged
  std::set<std::pair<std::int64_t, std::string>> seen_metrics_;
  std::map<std::int64_t, archive::CheckpointEntry> checkpoints_;
  std::vector<archive::MetricsLine> repeated_;
  std::optional<Difference> kept_;
};

void compare_end(const archive::RunRecord& record, const Verdict& verdict) {
  if (verdict.weights != record.weights())
    throw Different{{verdict.last, "final weights", record.weights(), verdict.weights}};
  if (!record.weights_sha256().empty() && verdict.weights_sha256 != record.weights_sha256())
    throw Different{{verdict.last, "SHA-256 of the final weights", record.weights_sha256(), verdict.weights_sha256}};
}

void expect_contract(const archive::RunRecord& record) {
  const std::string ours = contract_of(arithmetic_of(record.contract()));
  if (record.contract() == ours) return;
  if (record.is_stock()) {
    throw UserError(record.folder().string(),
                    fmt::format("was recorded by {}, this program has {}", archive::printable(record.contract()), ours),
                    "repeat it with the torch that recorded it");
  }
  throw UserError(
      record.folder().string(),
      fmt::format("was recorded under {}, this program computes by {}", archive::printable(record.contract()), ours),
      "verify it with the isobit that recorded it");
}

// archive/record_rules.h sees it first: this is for an experiment spelt so that the two read it differently.
[[noreturn]] void throw_other_arithmetic(const archive::RunRecord& record) {
  throw UserError((record.folder() / "experiment.toml").string(),
                  "damaged: it asks for another arithmetic than state.json names",
                  "restore the run's folder from a copy");
}

void compare_stock(const archive::RunRecord& record, const std::optional<Difference>& difference,
                   const std::vector<archive::MetricsLine>& repeated, Verdict& verdict) {
  if (verdict.interrupted) return;
  verdict.difference = difference;
  std::vector<archive::MetricsLine> recorded;
  for (const archive::MetricsLine& line : record.metrics()) {
    if (line.step >= verdict.first && line.step <= verdict.last) recorded.push_back(line);
  }
  verdict.recorded_metrics = archive::last_of_each_set(recorded);
  verdict.repeated_metrics = archive::last_of_each_set(repeated);
}

}  // namespace

void require_same_run(const archive::RunRecord& record, const Experiment& experiment, std::int64_t steps) {
  const auto damaged = [&](const std::string& what) {
    return UserError((record.folder() / "experiment.toml").string(), "damaged: " + what,
                     "restore the run's folder from a copy");
  };
  std::istringstream recorded(record.experiment()), canonical(to_toml(experiment));
  std::string line, expected;
  while (std::getline(recorded, line)) {
    do {
      if (!std::getline(canonical, expected)) {
        throw damaged(fmt::format("'{}' is not a line that isobit writes", archive::printable(line)));
      }
    } while (expected != line);
  }
  if (record.summary().name != experiment.name) throw damaged("the run has another name");
  if (record.summary().steps != steps) {
    throw damaged(fmt::format("it makes {} steps, the record has {}", steps, record.summary().steps));
  }
}

Verdict verify(const archive::RunRecord& record, const VerifyRequest& request, const std::atomic<bool>& stop,
               VerifyProgress progress, void* context) {
  expect_contract(record);
  const Experiment recorded = recorded_experiment(record.experiment(), (record.folder() / "experiment.toml").string());
  Experiment experiment = recorded;
  const std::filesystem::path network = record.folder() / "network.pt";  // an exported run brings its own
  if (!experiment.model.torchscript.empty() && std::filesystem::exists(network))
    experiment.model.torchscript = network.string();
  experiment.data.path = recorded_data_path(experiment.data.path, request.data_path);
  expect_data(record.data(), experiment);
  const DataSets data = load_data(experiment);
  Trainer trainer(experiment, data, request.execution);
  require_same_run(record, recorded, trainer.timetable().steps());
  if (record.contract() != contract_of(experiment.arithmetic)) throw_other_arithmetic(record);
  const ArithmeticScope arithmetic(experiment);

  Verdict verdict;
  verdict.stock = record.is_stock();
  const std::int64_t steps = trainer.timetable().steps();
  verdict.first = request.from.value_or(1);
  verdict.last = request.to.value_or(steps);
  if (verdict.first < 1 || verdict.last > steps || verdict.first > verdict.last) {
    throw UserError("--from, --to",
                    fmt::format("steps {}..{} are not within the run's 1..{}", verdict.first, verdict.last, steps),
                    "choose steps within the run");
  }
  verdict.whole = verdict.first == 1 && verdict.last == steps;
  if (verdict.last == steps) verdict.not_recomputed = record.missing_digests();

  // The newest checkpoint that leaves step `first` to be computed.
  const archive::CheckpointEntry* start = nullptr;
  for (const archive::CheckpointEntry& entry : record.checkpoints()) {
    if (entry.step < verdict.first && (start == nullptr || entry.step > start->step)) start = &entry;
  }
  if (start != nullptr) {
    restore_from(trainer, record.checkpoint(*start));
    verdict.start = start->step;
  }

  Comparer comparer(record, trainer, progress, context, verdict.first, verdict.last);
  const auto judge = [&] {
    try {
      if (execute(trainer, verdict.last, comparer, stop) == Outcome::interrupted) {
        verdict.interrupted = true;
        return;
      }
    } catch (const NotFinite& error) {
      comparer.judge([&] {
        comparer.expect_metrics_seen(trainer.steps_done());
        throw Different{{trainer.steps_done() + 1, "gradient", "finite", error.what()}};
      });
      return;
    }
    comparer.judge([&] { comparer.expect_metrics_seen(verdict.last); });
    if (verdict.last < steps) return;
    verdict.weights = weights_name(trainer);
    verdict.weights_sha256 = weights_sha256(trainer);
    comparer.judge([&] { compare_end(record, verdict); });
  };
  try {
    judge();
  } catch (const Different& different) {
    verdict.difference = different.difference;
  }
  verdict.checkpoints = comparer.checkpoints;
  if (verdict.stock) compare_stock(record, comparer.kept(), comparer.repeated(), verdict);
  return verdict;
}

}  // namespace isobit::train
