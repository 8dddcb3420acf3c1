#include "train/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "archive/user_error.h"
#include "aten/device_work.h"
#include "aten/module_path.h"
#include "contract/order_plan.h"
#include "contract/philox.h"
#include "kernels/exact_sum.h"
#include "train/device_tensors.h"
#include "train/out_of_memory.h"
#include "train/purposes.h"

namespace isobit::train {
namespace {

std::uint64_t key_of(const Experiment& experiment, Purpose purpose, std::int64_t a, std::int64_t b) {
  return contract::derive_key(static_cast<std::uint64_t>(experiment.seed), static_cast<std::uint32_t>(purpose),
                              static_cast<std::uint64_t>(a), static_cast<std::uint32_t>(b));
}

void seed_default_generator(std::uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // a handle, not a copy
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

// First index among equals, the first NaN before all (contract, section 1).
std::int64_t argmax_of_row(const float* row, std::int64_t n) {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (row[i] != row[i]) return i;
    if (row[i] > row[best]) best = i;
  }
  return best;
}

// Labels on the host, logits anywhere.
std::int64_t count_correct(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor host = on_host(logits.detach());
  const at::Tensor dense = (host.dim() == 4 ? host.permute({0, 2, 3, 1}).flatten(0, 2) : host).contiguous();
  const std::int64_t classes = dense.size(1);
  const float* x = dense.const_data_ptr<float>();
  const std::int64_t* label = labels.const_data_ptr<std::int64_t>();
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < dense.size(0); ++i) correct += argmax_of_row(x + i * classes, classes) == label[i];
  return correct;
}

}  // namespace

// What the grains of a step leave behind.
struct Trainer::GrainSums {
  std::int64_t correct = 0;
  float loss = 0;                                        // of the grain computed last: mean if alone, else sum
  std::vector<std::vector<BatchStatistics>> statistics;  // by grain index; values cloned
};

Trainer::Trainer(const Experiment& experiment, const DataSets& data, const Execution& execution)
    : experiment_(experiment),
      data_(data),
      execution_(execution),
      timetable_(experiment, data.train.count),
      train_batches_(experiment, data.train),
      test_batches_(experiment, data.test),
      preparer_(experiment_, data_.train, timetable_, train_batches_, execution.batch_digests),
      model_(make_model(experiment.model, data.train.height, data.train.width,
                        static_cast<std::uint64_t>(experiment.seed), execution.device)),
      parameters_(model_->parameters()),
      optimizer_(experiment.optimizer, parameters_) {}

float Trainer::targets_of(const StepPlace& place) const {
  return static_cast<float>(place.count * data_.train.targets());
}

std::vector<Trainer::Grain> Trainer::grains_of(const StepPlace& place) const {
  std::vector<Grain> grains;
  const std::int64_t size = experiment_.grain_size();
  for (std::int64_t first = 0; first < place.count; first += size) {
    grains.push_back({static_cast<std::int64_t>(grains.size()), first, std::min(size, place.count - first)});
  }
  return grains;
}

// Forward and backward of one grain; gradients are left in the parameters.
void Trainer::compute_grain(const StepPlace& place, const PreparedStep& batch, const Grain& grain, bool alone,
                            GrainSums& sums) {
  seed_default_generator(key_of(experiment_, Purpose::grain, place.step, grain.index));
  const at::Tensor images = batch.images.narrow(0, grain.first, grain.count);
  const at::Tensor labels = batch.labels.narrow(0, grain.first, grain.count);
  for (auto& [name, tensor] : parameters_) tensor.mutable_grad() = at::Tensor();
  const at::Tensor logits = model_->forward(images.to(execution_.device));
  const at::Tensor loss =
      at::cross_entropy_loss(logits, labels.to(execution_.device), {}, alone ? at::Reduction::Mean : at::Reduction::Sum,
                             -100, experiment_.loss.label_smoothing);
  loss.backward(scalar(alone ? 1.0f : 1.0f / targets_of(place), execution_.device));
  for (const auto& [name, tensor] : parameters_) {
    if (tensor.grad().defined()) continue;
    throw archive::UserError("model." + name, "the loss does not depend on this parameter",
                             "remove it from the network, or set requires_grad = False");
  }
  sums.loss = *on_host(loss).const_data_ptr<float>();
  sums.correct += count_correct(logits, labels);
}

// Several grains: gradients summed exactly into gradients_, running statistics applied in grain order.
void Trainer::sum_grains(const StepPlace& place, const PreparedStep& batch, std::int64_t grains, GrainSums& sums) {
  std::vector<GradientAccumulator> accumulators;
  for (const auto& [name, tensor] : parameters_) accumulators.emplace_back(tensor.numel(), execution_.device);
  kernels::ExactAccumulator loss(1);

  std::vector<Grain> order = grains_of(place);
  if (execution_.grain_order == GrainOrder::shuffled) {
    const contract::OrderPlan shuffle(contract::OrderRule::shuffled,
                                      key_of(experiment_, Purpose::grain_schedule, place.step, 0), 0,
                                      static_cast<std::uint64_t>(grains));
    std::vector<Grain> ascending = order;
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = ascending[shuffle(i)];
  }

  const std::vector<BatchStatistics> running = model_->batch_statistics();
  std::vector<BatchStatistics> before;
  for (const auto& [mean, variance, momentum] : running) before.push_back({mean.clone(), variance.clone(), momentum});
  sums.statistics.resize(static_cast<std::size_t>(grains));
  model_->store_batch_statistics(true);
  struct Restore {
    Model& model;
    ~Restore() { model.store_batch_statistics(false); }
  } const restore{*model_};

  for (const Grain& grain : order) {
    for (const auto& [mean, variance, momentum] : running) {
      mean.zero_();
      variance.zero_();
    }
    compute_grain(place, batch, grain, false, sums);
    for (const auto& [mean, variance, momentum] : running) {
      sums.statistics[static_cast<std::size_t>(grain.index)].push_back({mean.clone(), variance.clone(), momentum});
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const at::Tensor gradient = parameters_[i].tensor.grad().contiguous();
      const aten::DeviceWork work(execution_.device);
      if (accumulators[i].add(gradient.const_data_ptr<float>())) continue;
      throw NotFinite(fmt::format("the gradient of {} is not finite in step {}, grain {} (loss {})",
                                  parameters_[i].name, place.step, grain.index, sums.loss));
    }
    if (!loss.add(&sums.loss))
      throw NotFinite(fmt::format("the loss is not finite in step {}, grain {}", place.step, grain.index));
  }

  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    gradients_.push_back(at::empty(parameters_[i].tensor.sizes(), parameters_[i].tensor.options()));
    const aten::DeviceWork work(execution_.device);
    accumulators[i].result(gradients_.back().mutable_data_ptr<float>());
  }
  loss.result(&sums.loss);
  sums.loss /= targets_of(place);

  // Products and sum in binary32, each rounded.
  const auto apply = [](double momentum, const at::Tensor& old, const at::Tensor& fresh, const at::Tensor& out) {
    const auto keep = static_cast<float>(1.0 - momentum), take = static_cast<float>(momentum);
    out.copy_(old.mul(scalar(keep, old.device())).add(fresh.mul(scalar(take, fresh.device()))));
  };
  for (std::size_t k = 0; k < running.size(); ++k) {
    for (std::int64_t g = 0; g < grains; ++g) {
      const BatchStatistics& fresh = sums.statistics[static_cast<std::size_t>(g)][k];
      const BatchStatistics& old = g == 0 ? before[k] : running[k];
      apply(fresh.momentum, old.mean, fresh.mean, running[k].mean);
      apply(fresh.momentum, old.variance, fresh.variance, running[k].variance);
    }
  }
}

StepResult Trainer::step() {
  const StepPlace place = timetable_.place(steps_done_ + 1);
  const PreparedStep& batch = preparer_.take(place.step);
  aten::begin_step(place.step);
  model_->set_training(true);
  gradients_.clear();
  GrainSums sums;
  const std::vector<Grain> grains = grains_of(place);
  const std::vector<NamedTensor> buffers_before = copies(model_->buffers());
  try {
    if (grains.size() == 1) {
      compute_grain(place, batch, grains[0], true, sums);
      for (const auto& [name, tensor] : parameters_) gradients_.push_back(tensor.grad().contiguous());
    } else {
      sum_grains(place, batch, static_cast<std::int64_t>(grains.size()), sums);
    }
    const aten::DeviceWork work(execution_.device);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if (kernels::top_limb(gradients_[i].const_data_ptr<float>(), gradients_[i].numel()) != kernels::kNotFinite)
        continue;
      throw NotFinite(fmt::format("the gradient of {} is not finite in step {} (loss {})", parameters_[i].name,
                                  place.step, sums.loss));
    }
  } catch (const c10::OutOfMemoryError& error) {
    copy_values(buffers_before, model_->buffers());
    const std::int64_t fixed = 2 * bytes_of(parameters_) + bytes_of(model_->buffers()) + bytes_of(optimizer_.state());
    throw out_of_memory(error.what_without_backtrace(),
                        {execution_.device.str(), place.step, std::min(experiment_.grain_size(), place.count), fixed});
  } catch (...) {
    copy_values(buffers_before, model_->buffers());
    throw;
  }

  StepResult result;
  result.place = place;
  result.lr = timetable_.learning_rate(place.step);
  result.loss = sums.loss;
  result.correct = sums.correct;
  result.batch_digest = batch.digest;
  {
    const aten::DeviceWork work(execution_.device);
    optimizer_.step(place.step, result.lr, gradients_);
  }

  if (place.first == 0) sums_ = {};
  sums_.loss += static_cast<double>(sums.loss) * static_cast<double>(place.count);
  sums_.correct += sums.correct;
  sums_.samples += place.count;
  steps_done_ = place.step;
  return result;
}

Evaluation Trainer::evaluate() {
  const at::NoGradGuard no_grad;
  aten::begin_step(-1);
  model_->set_training(false);
  const Dataset& test = data_.test;
  double loss_sum = 0;
  std::int64_t correct = 0;
  for (std::int64_t first = 0; first < test.count; first += experiment_.evaluate.batch) {
    const std::int64_t count = std::min(experiment_.evaluate.batch, test.count - first);
    const at::Tensor images = at::empty({count, 1, test.height, test.width}, at::kFloat);
    const at::Tensor labels = at::empty(
        test.per_pixel ? std::vector<std::int64_t>{count, test.height, test.width} : std::vector<std::int64_t>{count},
        at::kLong);
    for (std::int64_t i = 0; i < count; ++i) {
      test_batches_.plain_targets(first + i, labels.mutable_data_ptr<std::int64_t>() + i * test.targets());
      test_batches_.plain(first + i, images.mutable_data_ptr<float>() + i * test.height * test.width);
    }
    const at::Tensor logits = model_->forward(images.to(execution_.device));
    const at::Tensor loss = at::cross_entropy_loss(logits, labels.to(execution_.device), {}, at::Reduction::Sum, -100,
                                                   experiment_.loss.label_smoothing);
    loss_sum += static_cast<double>(*on_host(loss).const_data_ptr<float>());
    correct += count_correct(logits, labels);
  }
  const auto targets = static_cast<double>(test.count * test.targets());
  return {loss_sum / targets, static_cast<double>(correct) / targets};
}

kernels::Fingerprint Trainer::weights_fingerprint() const {
  const aten::DeviceWork work(execution_.device);
  return trace::fingerprint(model_->state());
}
kernels::Fingerprint Trainer::optimizer_fingerprint() const {
  const aten::DeviceWork work(execution_.device);
  return trace::fingerprint(optimizer_.state());
}

TrainingState Trainer::state() const {
  return {steps_done_, sums_, on_host(model_->state()), on_host(optimizer_.state())};
}

void Trainer::restore(const TrainingState& state) {
  copy_values(state.weights, model_->state());
  copy_values(state.optimizer, optimizer_.state());
  steps_done_ = state.steps_done;
  sums_ = state.sums;
}

}  // namespace isobit::train
