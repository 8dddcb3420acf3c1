#include "train/evaluator.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "train/device_tensors.h"

namespace isobit::train {

Evaluator::Evaluator(const Experiment& experiment, const samples::Samples& data, const Task& task, c10::Device device)
    : data_(data),
      task_(task),
      maker_(experiment, data),
      batch_(experiment.evaluate.batch),
      means_(experiment.loss.name == "dice"),
      device_(device) {}

std::int64_t Evaluator::parts() const { return (data_.count() + batch_ - 1) / batch_; }

Evaluator::Part Evaluator::part(Model& model, std::int64_t index) const {
  const std::int64_t first = index * batch_, count = std::min(batch_, data_.count() - first);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  std::vector<at::Tensor> inputs;
  at::Tensor targets;
  for (std::size_t i = 0; i < maker_.fields(); ++i) {
    const at::Tensor values = maker_.memory_for(i, count);
    maker_.fill(i, ids, 0, values);
    if (maker_.is_input(i)) inputs.push_back(values.to(device_));
    if (!maker_.is_input(i)) targets = values;
  }
  const at::Tensor outputs = model.forward(inputs);
  const at::Tensor weights = maker_.weights(ids);
  const at::Tensor loss =
      task_.loss(outputs, targets.to(device_), weights.defined() ? weights.to(device_) : weights, means_);
  Part part;
  part.loss = static_cast<double>(*on_host(loss).const_data_ptr<float>());
  for (const std::int64_t id : ids) part.weight += task_.sample_weight(data_, id);
  if (means_) part.loss *= part.weight;  // a loss of whole batches weighs as their targets
  part.counts = task_.count(outputs, targets);
  return part;
}

Metrics Evaluator::finish(const std::vector<Part>& parts) const {
  Part sum;
  for (const Part& part : parts) {
    sum.loss += part.loss;
    sum.weight += part.weight;
    sum.counts.add(part.counts);
  }
  return task_.metrics(sum.loss, sum.weight, sum.counts);
}

Metrics Evaluator::evaluate(Model& model, const Share& share) const {
  const at::NoGradGuard no_grad;
  model.set_training(false);
  const auto compute = [&](std::int64_t index) { return part(model, index); };
  if (share) return finish(share(parts(), compute));
  std::vector<Part> all;
  for (std::int64_t i = 0; i < parts(); ++i) all.push_back(compute(i));
  return finish(all);
}

}  // namespace isobit::train
