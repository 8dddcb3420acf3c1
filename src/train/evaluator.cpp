#include "train/evaluator.h"

#include <ATen/core/grad_mode.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>

#include "archive/log_lines.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "train/device_tensors.h"

namespace isobit::train {

Evaluator::Evaluator(const Experiment& experiment, const samples::Samples& data, const Task& task, c10::Device device)
    : data_(data),
      task_(task),
      maker_(experiment, data),
      batch_(experiment.evaluate.batch),
      means_(experiment.loss.name == "dice"),
      device_(device) {
  if (!experiment.evaluate.predictions) return;
  if (data.count() > archive::kMostPredictions) {
    throw archive::UserError("evaluate.predictions",
                             fmt::format("the test set has {} samples; a line holds {} predictions", data.count(),
                                         archive::kMostPredictions),
                             "set data.test_limit, or keep no predictions");
  }
  targets_ = targets_digest();
}

std::string Evaluator::targets_digest() const {
  archive::Sha256 hash;
  for (std::int64_t index = 0; index < parts(); ++index) {
    const std::vector<std::int64_t> ids = ids_of(index);
    for (std::size_t i = 0; i < maker_.fields(); ++i) {
      if (maker_.is_input(i)) continue;
      const at::Tensor targets = maker_.memory_for(i, static_cast<std::int64_t>(ids.size()));
      maker_.fill(i, ids, 0, targets);
      const std::span values(targets.const_data_ptr<std::int64_t>(), ids.size());
      std::string bytes;
      for (const std::int64_t value : values) {
        for (int shift = 0; shift < 64; shift += 8)
          bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> shift);
      }
      hash.update(bytes);
    }
  }
  return hash.hex();
}

std::vector<std::int64_t> Evaluator::ids_of(std::int64_t part) const {
  const std::int64_t first = part * batch_, count = std::min(batch_, data_.count() - first);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

std::int64_t Evaluator::parts() const { return (data_.count() + batch_ - 1) / batch_; }

Evaluator::Part Evaluator::part(Model& model, std::int64_t index) const {
  const std::vector<std::int64_t> ids = ids_of(index);
  const auto count = static_cast<std::int64_t>(ids.size());
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
  if (!targets_.empty()) part.classes = task_.classes(outputs);
  return part;
}

Evaluation Evaluator::finish(const std::vector<Part>& parts) const {
  Part sum;
  for (const Part& part : parts) {
    sum.loss += part.loss;
    sum.weight += part.weight;
    sum.counts.add(part.counts);
  }
  Evaluation evaluation{task_.metrics(sum.loss, sum.weight, sum.counts), std::nullopt};
  if (targets_.empty()) return evaluation;
  evaluation.predictions.emplace().targets = targets_;
  std::vector<std::int64_t>& classes = evaluation.predictions->classes;
  for (const Part& part : parts) classes.insert(classes.end(), part.classes.begin(), part.classes.end());
  if (static_cast<std::int64_t>(classes.size()) != data_.count())
    throw std::logic_error("an evaluation's parts have not one prediction per sample");
  return evaluation;
}

Evaluation Evaluator::evaluate(Model& model, const Share& share) const {
  const at::NoGradGuard no_grad;
  model.set_training(false);
  const auto compute = [&](std::int64_t index) { return part(model, index); };
  if (share) return finish(share(parts(), compute));
  std::vector<Part> all;
  for (std::int64_t i = 0; i < parts(); ++i) all.push_back(compute(i));
  return finish(all);
}

}  // namespace isobit::train
