#include "train/trainer.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "archive/user_error.h"
#include "aten/batch_statistics.h"
#include "aten/device_work.h"
#include "aten/guard.h"
#include "aten/module_path.h"
#include "contract/full_sum.h"
#include "contract/order_plan.h"
#include "contract/philox.h"
#include "train/device_tensors.h"
#include "train/out_of_memory.h"
#include "train/purposes.h"

namespace isobit::train {

Trainer::Trainer(const Experiment& experiment, const DataSets& data, const Execution& execution)
    : experiment_(experiment),
      data_(data),
      execution_(execution),
      timetable_(experiment, data.train->count()),
      task_(make_task(experiment_)),
      maker_(experiment_, *data.train),
      source_([this](std::int64_t step) { return grain_order(step); }),
      evaluator_(experiment_, *data.test, *task_, execution.device),
      workers_([&] {
        const GrainWorker::Shared shared{experiment_, *data_.train, timetable_, maker_, *task_, execution_};
        std::vector<std::unique_ptr<GrainWorker>> workers;
        for (int i = 0; i < std::max(1, execution.workers); ++i)
          workers.push_back(std::make_unique<GrainWorker>(shared, i));
        return workers;
      }()),
      optimizer_(experiment.optimizer, workers_[0]->parameters(), experiment.arithmetic) {}

Trainer::~Trainer() = default;

// D is known before any backward: of equal samples by their number, else from their columns in the step's order.
StepOrder Trainer::order_of(const StepPlace& place) const {
  const std::int64_t size = experiment_.grain_size();
  StepOrder order{place, (place.count + size - 1) / size, 0};
  if (!task_->weighted()) {
    order.weight = static_cast<float>(place.count * static_cast<std::int64_t>(task_->sample_weight(*data_.train, 0)));
    return order;
  }
  const contract::OrderPlan plan(contract::OrderRule::shuffled, experiment_.order_seed(),
                                 static_cast<std::uint64_t>(place.epoch),
                                 static_cast<std::uint64_t>(data_.train->count()));
  contract::FullSum total;
  for (std::int64_t i = 0; i < place.count; ++i) {
    const auto sample = static_cast<std::int64_t>(plan(static_cast<std::uint64_t>(place.first + i)));
    total.add(task_->sample_weight(*data_.train, sample));
  }
  const double sum = total.result();
  order.weight = static_cast<float>(sum);
  if (order.weight > 0) return order;
  throw archive::UserError(fmt::format("step {}", place.step),
                           fmt::format("its samples weigh {} together, so their loss has no mean", sum),
                           "give some samples a weight above 0 (data.weight, data.count), or choose a larger batch");
}

std::vector<std::int64_t> Trainer::grain_order(std::int64_t step) const {
  if (step > timetable_.steps()) return {};
  const std::int64_t size = experiment_.grain_size(), count = timetable_.place(step).count;
  std::vector<std::int64_t> order(static_cast<std::size_t>((count + size - 1) / size));
  std::iota(order.begin(), order.end(), 0);
  if (execution_.grain_order == GrainOrder::ascending || order.size() == 1) return order;
  const std::uint64_t key =
      contract::derive_key(static_cast<std::uint64_t>(experiment_.seed),
                           static_cast<std::uint32_t>(Purpose::grain_schedule), static_cast<std::uint64_t>(step), 0);
  const contract::OrderPlan shuffle(contract::OrderRule::shuffled, key, 0, order.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(shuffle(i));
  return order;
}

// The first worker on this thread, the others on threads of their own; the first error of the lowest worker is thrown.
grains::GrainSums Trainer::compute(const StepOrder& order, grains::GrainSource& source,
                                   std::optional<grains::GrainSums>&& before) {
  const std::size_t count = order.grains == 1 ? 1 : workers_.size();
  std::vector<grains::GrainSums> sums;
  sums.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i == 0 && before)
      sums.push_back(std::move(*before));
    else
      sums.emplace_back(workers_[0]->parameters(), execution_.device, order.place.step, order.grains);
  }
  std::vector<std::exception_ptr> errors(count);
  const auto work = [&](std::size_t i) {
    try {
      workers_[i]->work(order, source, sums[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (std::size_t i = 1; i < count; ++i) sums[0].merge(std::move(sums[i]));
  return std::move(sums[0]);
}

SharedSteps::Caller Trainer::caller() {
  return {[this] { return steps_done_; }, [this] { return state(); },
          [this](const TrainingState& state) { restore(state); }, [this] { return workers_[0]->parameters(); },
          [this] { return model().buffers(); }};
}

void Trainer::forget_claims() {
  source_.reset();
  for (const auto& worker : workers_) worker->reset();
}

// Until the job's processes have the step together. Nothing of the model changes before.
std::variant<grains::FinishedStep, SharedSteps::TakenOver> Trainer::compute_shared(const StepOrder& order) {
  SharedSteps& shared = *execution_.shared;
  std::optional<grains::GrainSums> sums;
  while (true) {
    if (std::exchange(claims_of_, shared.generation()) != shared.generation()) forget_claims();
    std::exception_ptr error;
    if (order.grains > 1) {
      try {
        sums = compute(order, shared.source(), std::exchange(sums, std::nullopt));
      } catch (...) {
        error = std::current_exception();
        sums.reset();
      }
    }
    SharedSteps::Outcome outcome = shared.finish(order, sums ? &*sums : nullptr, error, caller());
    if (auto* finished = std::get_if<grains::FinishedStep>(&outcome)) return std::move(*finished);
    if (auto* taken = std::get_if<SharedSteps::TakenOver>(&outcome)) return std::move(*taken);
    if (std::holds_alternative<SharedSteps::Alone>(outcome)) return compute(order, source_, {}).finish();
    if (std::get<SharedSteps::MoreGrains>(outcome).forget) sums.reset();
  }
}

// Running statistics in grain order, and the buffers that count, into the first worker's model. A worker's updates name
// the tensors of its own model.
void Trainer::apply(grains::FinishedStep& step) {
  aten::require_equal_momenta(step.statistics);
  std::map<const c10::TensorImpl*, at::Tensor> counted;
  const std::vector<NamedTensor> buffers = model().buffers();
  for (const auto& worker : workers_) {
    const std::vector<NamedTensor> theirs = worker->model().buffers();
    for (std::size_t i = 0; i < theirs.size(); ++i) counted[theirs[i].tensor.unsafeGetTensorImpl()] = buffers[i].tensor;
  }
  const auto ours = [&](at::Tensor& running) {
    if (!running.defined()) return;
    const auto found = counted.find(running.unsafeGetTensorImpl());
    if (found == counted.end()) {
      throw archive::UserError("model", "batch norm's running statistics are no buffer of the network",
                               "register them as buffers, or set grain = 0");
    }
    running = found->second;
  };
  for (aten::RunningUpdates& grain : step.statistics) {
    for (aten::RunningUpdate& update : grain) ours(update.running_mean), ours(update.running_variance);
    aten::apply(grain);
  }
  for (const auto& [name, tensor] : buffers) {
    const auto found = step.increments.find(name);
    if (found != step.increments.end()) tensor.add_(found->second);
  }
}

void Trainer::load_replicas() {
  for (std::size_t i = 1; i < workers_.size(); ++i) workers_[i]->load(model().state());
}

// A step that failed: nothing of it stays, and its grains can be claimed anew.
void Trainer::undo(const std::vector<NamedTensor>& buffers_before) {
  copy_values(buffers_before, model().buffers());
  forget_claims();
}

StepResult Trainer::step() {
  while (true) {
    if (auto result = advance()) return std::move(*result);
  }
}

std::optional<StepResult> Trainer::advance() {
  const StepPlace place = timetable_.place(steps_done_ + 1);
  gradients_.clear();
  const std::vector<NamedTensor> buffers_before = copies(model().buffers());
  StepOrder order;
  grains::FinishedStep finished;
  try {
    order = order_of(place);
    if (execution_.shared != nullptr) {
      auto outcome = compute_shared(order);
      if (auto* taken = std::get_if<SharedSteps::TakenOver>(&outcome))
        return taken->result ? std::optional(*taken->result) : std::nullopt;
      finished = std::move(std::get<grains::FinishedStep>(outcome));
    } else {
      finished = compute(order, source_, {}).finish();
    }
    apply(finished);
  } catch (const c10::OutOfMemoryError& error) {
    undo(buffers_before);
    const std::int64_t fixed =
        2 * bytes_of(workers_[0]->parameters()) + bytes_of(model().buffers()) + bytes_of(optimizer_.state());
    throw out_of_memory(error.what_without_backtrace(),
                        {execution_.device.str(), place.step, std::min(experiment_.grain_size(), place.count), fixed});
  } catch (...) {
    undo(buffers_before);
    throw;
  }
  StepResult result;
  try {
    result = close(place, order, std::move(finished));
  } catch (const grains::NotFinite&) {  // a norm that the optimizer needs
    undo(buffers_before);
    throw;
  }
  if (execution_.shared != nullptr) execution_.shared->finished(result);
  return result;
}

kernels::Fingerprint Trainer::gradients_fingerprint() const {
  const std::vector<NamedTensor>& parameters = workers_[0]->parameters();
  std::vector<NamedTensor> named;
  named.reserve(gradients_.size());
  for (std::size_t i = 0; i < gradients_.size(); ++i) named.push_back({parameters[i].name, gradients_[i]});
  return trace::fingerprint(std::move(named));
}

StepResult Trainer::close(const StepPlace& place, const StepOrder& order, grains::FinishedStep&& finished) {
  gradients_ = std::move(finished.gradients);
  StepResult result;
  result.place = place;
  result.lr = timetable_.learning_rate(place.step);
  const bool mean = order.grains == 1 && task_->takes_means();
  result.loss = mean ? finished.loss_sum : finished.loss_sum / order.weight;
  result.correct = finished.counts.correct;
  if (!finished.digest.empty()) result.batch_digest = maker_.close(finished.digest, place.count);
  {
    const aten::DeviceWork work(execution_.device);
    if (timetable_.gradients_fingerprint_at(place.step)) result.gradients = gradients_fingerprint();
    optimizer_.step(place.step, result.lr, gradients_);
  }
  load_replicas();

  if (place.first == 0) sums_ = {};
  const double weight = static_cast<double>(task_->weighted() ? order.weight : static_cast<float>(place.count));
  sums_.loss += static_cast<double>(result.loss) * weight;
  sums_.weight += weight;
  sums_.samples += place.count;
  sums_.counts.add(finished.counts);
  sums_.derivable = !task_->weighted() && experiment_.data.target != "value";
  steps_done_ = place.step;
  return result;
}

Evaluation Trainer::evaluate() {
  aten::begin_step(-1);
  aten::check_kernels();
  if (execution_.shared == nullptr) return evaluator_.evaluate(model());
  return evaluator_.evaluate(model(), [this](std::int64_t parts, const auto& compute) {
    return execution_.shared->evaluate(steps_done_, parts, compute, caller());
  });
}

kernels::Fingerprint Trainer::weights_fingerprint() const {
  const aten::DeviceWork work(execution_.device);
  return trace::fingerprint(model().state());
}
kernels::Fingerprint Trainer::optimizer_fingerprint() const {
  const aten::DeviceWork work(execution_.device);
  return trace::fingerprint(optimizer_.state());
}

TrainingState Trainer::state() const {
  return {steps_done_, sums_, on_host(model().state()), on_host(optimizer_.state())};
}

void Trainer::restore(const TrainingState& state) {
  copy_values(state.weights, model().state());
  copy_values(state.optimizer, optimizer_.state());
  steps_done_ = state.steps_done;
  sums_ = state.sums;
  if (sums_.derivable) {
    sums_.weight = static_cast<double>(sums_.samples);
    sums_.counts.targets = sums_.samples * static_cast<std::int64_t>(task_->sample_weight(*data_.train, 0));
  }
  forget_claims();
  load_replicas();
}

}  // namespace isobit::train
