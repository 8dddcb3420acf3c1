#include "train/grain_worker.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "archive/user_error.h"
#include "aten/generator_scope.h"
#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "contract/philox.h"
#include "train/arithmetic.h"
#include "train/device_tensors.h"
#include "train/purposes.h"

namespace isobit::train {

GrainPlace grain_place(const StepPlace& step, std::int64_t index, std::int64_t grain_size) {
  const std::int64_t in_step = index * grain_size;
  return {step.step, step.epoch, index, step.first + in_step, std::min(grain_size, step.count - in_step), in_step};
}

std::vector<samples::Field> input_fields(const samples::Samples& data) {
  std::vector<samples::Field> inputs;
  for (const samples::Field& field : data.fields()) {
    if (field.role == samples::Role::input) inputs.push_back(field);
  }
  return inputs;
}

GrainWorker::GrainWorker(const Shared& shared, int number)
    : shared_(shared),
      number_(number),
      preparer_(shared.experiment, shared.data, shared.maker, shared.execution.batch_digests),
      model_(make_model(shared.experiment.model, input_fields(shared.data), shared.experiment.init_seed(),
                        shared.execution.device)),
      parameters_(model_->parameters()) {}

void GrainWorker::load(const std::vector<NamedTensor>& weights) { copy_values(weights, model_->state()); }

// A buffer as it was before a grain; `version` tells whether anything wrote to it.
struct GrainWorker::BufferState {
  NamedTensor buffer;
  std::int64_t version = 0;
  at::Tensor value;
};

void GrainWorker::put_back(const std::vector<BufferState>& before, grains::GrainResult& result) {
  if (!aten::OperatorSwitch::on()) return;  // an ordinary loop
  const at::NoGradGuard no_grad;
  const auto is_running = [&](const at::Tensor& tensor) {
    return std::any_of(result.statistics.begin(), result.statistics.end(), [&](const aten::RunningUpdate& update) {
      return update.running_mean.is_same(tensor) || update.running_variance.is_same(tensor);
    });
  };
  for (const auto& [buffer, version, value] : before) {
    const auto& [name, tensor] = buffer;
    if (tensor._version() == version || is_running(tensor)) continue;
    const at::Tensor now = on_host(tensor).contiguous(), old = on_host(value).contiguous();
    if (std::memcmp(now.const_data_ptr(), old.const_data_ptr(), old.nbytes()) == 0) continue;
    if (tensor.scalar_type() != at::kLong || tensor.numel() != 1) {
      throw archive::UserError(
          "model." + name,
          "this buffer changes while a grain is computed, so a step of several grains would depend on "
          "their order",
          "set grain = 0, or keep the buffer as it is in training");
    }
    result.increments[name] += *now.const_data_ptr<std::int64_t>() - *old.const_data_ptr<std::int64_t>();
    tensor.copy_(value);
  }
}

grains::GrainResult GrainWorker::compute(const StepOrder& order, const PreparedGrain& grain,
                                         aten::GeneratorScope& generator) {
  const Task& task = shared_.task;
  const c10::Device device = shared_.execution.device;
  const bool mean = order.grains == 1 && task.takes_means();
  const std::uint64_t seed =
      contract::derive_key(shared_.experiment.dropout_seed(), static_cast<std::uint32_t>(Purpose::grain),
                           static_cast<std::uint64_t>(grain.place.step), static_cast<std::uint32_t>(grain.place.index));
  generator.seed(seed);
  if (shared_.experiment.arithmetic.is_stock()) seed_stock(seed);
  std::optional<aten::BatchStatisticsScope> statistics;
  std::vector<BufferState> buffers;
  if (order.grains > 1) {
    statistics.emplace();
    for (const NamedTensor& buffer : model_->buffers())
      buffers.push_back({buffer, static_cast<std::int64_t>(buffer.tensor._version()), buffer.tensor.detach().clone()});
  }
  for (auto& [name, tensor] : parameters_) tensor.mutable_grad() = at::Tensor();

  std::vector<at::Tensor> inputs;
  at::Tensor targets;
  for (std::size_t i = 0; i < grain.values.size(); ++i) {
    if (shared_.maker.is_input(i)) inputs.push_back(grain.values[i].to(device));
    if (!shared_.maker.is_input(i)) targets = grain.values[i];
  }
  const at::Tensor outputs = model_->forward(inputs);
  const at::Tensor weights = grain.weights.defined() ? grain.weights.to(device) : grain.weights;
  const at::Tensor loss = task.loss(outputs, targets.to(device), weights, mean);
  loss.backward(scalar(mean ? 1.0f : 1.0f / order.weight, device));

  grains::GrainResult result;
  result.grain = grain.place.index;
  for (const auto& [name, tensor] : parameters_) {
    if (!tensor.grad().defined()) {
      throw archive::UserError("model." + name, "the loss does not depend on this parameter",
                               "remove it from the network, or set requires_grad = False");
    }
    result.gradients.push_back(tensor.grad().contiguous());
  }
  result.loss = *on_host(loss).const_data_ptr<float>();
  result.counts = task.count(outputs.detach(), targets);
  result.digest = grain.digest;
  if (!statistics) return result;
  result.statistics = statistics->take();
  put_back(buffers, result);
  return result;
}

void GrainWorker::claim_ahead(const StepOrder& order, grains::GrainSource& source) {
  const StepPlace& place = order.place;
  const std::int64_t size = shared_.experiment.grain_size();
  if (const auto grain = source.claim_ahead(place.step)) {
    ahead_ = grain_place(place, *grain, size);
  } else if (place.step < shared_.timetable.steps()) {
    const StepPlace next = shared_.timetable.place(place.step + 1);
    if (const auto later = source.claim_ahead(next.step)) ahead_ = grain_place(next, *later, size);
  }
}

void GrainWorker::give_back(grains::GrainSource& source) {
  for (std::optional<GrainPlace>* held : {&now_, &ahead_}) {
    if (*held) source.give_back((*held)->step, (*held)->index);
    held->reset();
  }
}

void GrainWorker::work(const StepOrder& order, grains::GrainSource& source, grains::GrainSums& sums) {
  aten::begin_step(order.place.step);
  model_->set_training(true);
  aten::GeneratorScope generator(0);
  try {
    while (true) {
      if (ahead_ && ahead_->step != order.place.step) {
        // Others may still give grains of this step back: one's own, of the next, waits.
        const auto grain = source.claim(order.place.step);
        if (!grain) return;
        source.give_back(ahead_->step, ahead_->index);
        ahead_ = grain_place(order.place, *grain, shared_.experiment.grain_size());
      }
      if (!ahead_) {
        const auto grain = source.claim(order.place.step);
        if (!grain) return;
        ahead_ = grain_place(order.place, *grain, shared_.experiment.grain_size());
      }
      now_ = std::exchange(ahead_, std::nullopt);
      claim_ahead(order, source);
      grains::GrainResult result = compute(order, preparer_.take(*now_, ahead_), generator);
      if (shared_.execution.before_add) shared_.execution.before_add(number_, *now_);
      sums.add(std::move(result));
      source.done(now_->step, now_->index);
      now_.reset();
    }
  } catch (const WorkerStopped&) {
    give_back(source);
  } catch (...) {
    give_back(source);
    source.stop(order.place.step);
    throw;
  }
}

}  // namespace isobit::train
