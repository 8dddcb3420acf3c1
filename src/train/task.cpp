#include "train/task.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/softmax.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <stdexcept>

#include "archive/user_error.h"
#include "train/device_tensors.h"

namespace isobit::train {
namespace {

using archive::UserError;
using samples::Samples;

constexpr std::int64_t kIgnored = -100;

std::size_t target_field(const Samples& samples) {
  std::vector<std::string> names;
  std::size_t found = 0;
  for (std::size_t i = 0; i < samples.fields().size(); ++i) {
    if (samples.fields()[i].role != samples::Role::target) continue;
    names.push_back(samples.fields()[i].name);
    found = i;
  }
  if (names.size() == 1) return found;
  throw UserError("data.targets", fmt::format("the data has {} targets ({})", names.size(), fmt::join(names, ", ")),
                  "name one field, or columns of one table");
}

[[noreturn]] void fail_shape(const Experiment& e, const samples::Field& field, const std::string& expected) {
  const char* types[] = {"uint8", "int64", "float32"};
  throw UserError("data.target",
                  fmt::format("\"{}\" with model.classes = {} needs {}, but the field '{}' is {} [{}]", e.data.target,
                              e.model.classes, expected, field.name, types[static_cast<int>(field.element)],
                              fmt::join(field.shape, ", ")),
                  "choose another data.target, model.classes or field");
}

// Visits the int64 values of a field in pieces: visit(sample, values).
template <class Visit>
void each_sample(const Samples& samples, std::size_t field, Visit visit) {
  const std::int64_t elements = samples.fields()[field].elements();
  const std::int64_t piece = std::max<std::int64_t>(1, (1 << 20) / std::max<std::int64_t>(1, elements));
  std::vector<std::int64_t> ids, values;
  for (std::int64_t first = 0; first < samples.count(); first += piece) {
    const std::int64_t count = std::min(piece, samples.count() - first);
    ids.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = first + i;
    values.resize(static_cast<std::size_t>(count * elements));
    samples.read(field, ids, reinterpret_cast<std::byte*>(values.data()));
    for (std::int64_t i = 0; i < count; ++i) visit(first + i, values.data() + i * elements);
  }
}

class AnyTask : public Task {
 public:
  explicit AnyTask(const Experiment& experiment)
      : experiment_(experiment), weighted_(!experiment.data.weight.empty() || !experiment.data.count.empty()) {}

  [[nodiscard]] bool weighted() const override { return weighted_; }
  [[nodiscard]] double sample_weight(const Samples& samples, std::int64_t id) const override {
    const std::int64_t counted = samples.targets(id);
    const std::int64_t targets = counted >= 0 ? counted : samples.fields()[target_field(samples)].elements();
    return static_cast<double>(samples.weight(id)) * static_cast<double>(targets);
  }
  [[nodiscard]] bool takes_means() const override { return !weighted_; }

 protected:
  // Each target's loss [n, ...] summed with its sample's weight.
  [[nodiscard]] static at::Tensor weighted_sum(const at::Tensor& losses, const at::Tensor& weights) {
    if (!weights.defined()) return losses.sum();
    return losses.reshape({losses.size(0), -1}).sum(1).mul(weights).sum();
  }

  const Experiment experiment_;
  bool weighted_;
};

// First index among equals, the first NaN before all (contract, section 1).
std::int64_t argmax_of_row(const float* row, std::int64_t n) {
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (row[i] != row[i]) return i;
    if (row[i] > row[best]) best = i;
  }
  return best;
}

class ClassTask : public AnyTask {
 public:
  using AnyTask::AnyTask;

  void check(const Samples& samples) const override {
    const std::size_t place = target_field(samples);
    const samples::Field& field = samples.fields()[place];
    const std::size_t rank = experiment_.data.per_pixel() ? 2 : positions() ? 1 : 0;
    if (field.element != samples::Element::int64 || field.shape.size() != rank) {
      const char* expected[] = {"a class (an integer) per sample", "classes (integers) per position [positions]",
                                "classes (integers) per pixel [height, width]"};
      fail_shape(experiment_, field, expected[rank]);
    }
    if (experiment_.data.format == "text") return;
    const std::int64_t classes = experiment_.model.classes;
    const bool silhouette = experiment_.data.target == "silhouette";
    each_sample(samples, place, [&](std::int64_t id, const std::int64_t* values) {
      std::int64_t counted = 0;
      for (std::int64_t i = 0; i < field.elements(); ++i) {
        if (positions() && values[i] == kIgnored) continue;
        ++counted;
        if (values[i] >= 0 && values[i] < classes) continue;
        throw UserError(samples.name(id),
                        fmt::format("label {} is out of range 0..{}", values[i] - silhouette, classes - 1 - silhouette),
                        "set model.classes to the number of classes, or correct the data");
      }
      expect_count(samples, id, counted);
    });
  }
  [[nodiscard]] at::Tensor loss(const at::Tensor& outputs, const at::Tensor& targets, const at::Tensor& weights,
                                bool mean) const override {
    const bool by_token = positions() && outputs.dim() == 3;
    const at::Tensor rows = by_token ? outputs.flatten(0, 1) : outputs, labels = by_token ? targets.flatten() : targets;
    if (experiment_.loss.name == "dice") return dice(outputs, targets);
    const auto reduced = [&](at::Reduction::Reduction reduction) {
      return at::cross_entropy_loss(rows, labels, {}, reduction, kIgnored, experiment_.loss.label_smoothing);
    };
    if (mean) return reduced(at::Reduction::Mean);
    if (!weights.defined()) return reduced(at::Reduction::Sum);
    return weighted_sum(reduced(at::Reduction::None).reshape({outputs.size(0), -1}), weights);
  }
  [[nodiscard]] Counts count(const at::Tensor& outputs, const at::Tensor& targets) const override {
    const at::Tensor host = on_host(outputs);
    const bool per_pixel = host.dim() == 4;
    const at::Tensor dense = (per_pixel         ? host.permute({0, 2, 3, 1}).flatten(0, 2)
                              : host.dim() == 3 ? host.flatten(0, 1)
                                                : host)
                                 .contiguous();
    const std::int64_t classes = dense.size(1);
    const float* x = dense.const_data_ptr<float>();
    const std::int64_t* label = targets.const_data_ptr<std::int64_t>();
    Counts counts;
    for (std::int64_t i = 0; i < dense.size(0); ++i) {
      if (label[i] == kIgnored) continue;
      ++counts.targets;
      counts.correct += argmax_of_row(x + i * classes, classes) == label[i];
    }
    return counts;
  }
  [[nodiscard]] std::vector<std::int64_t> classes(const at::Tensor& outputs) const override {
    const at::Tensor dense = on_host(outputs).contiguous();
    if (dense.dim() != 2) throw std::logic_error("no class per sample");
    std::vector<std::int64_t> classes;
    for (std::int64_t i = 0; i < dense.size(0); ++i)
      classes.push_back(argmax_of_row(dense.const_data_ptr<float>() + i * dense.size(1), dense.size(1)));
    return classes;
  }
  [[nodiscard]] bool takes_means() const override { return !weighted_ || experiment_.loss.name == "dice"; }
  [[nodiscard]] Metrics metrics(double loss_sum, double weight, const Counts& counts) const override {
    return {loss_sum / weight, static_cast<double>(counts.correct) / static_cast<double>(counts.targets), "accuracy"};
  }

 private:
  [[nodiscard]] bool positions() const {
    return experiment_.data.target == "sequence" || experiment_.data.target == "next";
  }
  // A step's weight is taken from the column, so the column must be right.
  void expect_count(const Samples& samples, std::int64_t id, std::int64_t counted) const {
    const std::int64_t said = samples.targets(id);
    if (said < 0 ? !positions() || counted == samples.fields()[target_field(samples)].elements() : said == counted)
      return;
    throw UserError(samples.name(id),
                    said < 0 ? fmt::format("has {} ignored targets (-100), and nothing says so beforehand",
                                           samples.fields()[target_field(samples)].elements() - counted)
                             : fmt::format("has {} targets that count, but data.count says {}", counted, said),
                    "name in data.count the array of how many targets count");
  }
  static at::Tensor dice(const at::Tensor& outputs, const at::Tensor& targets) {
    const at::Tensor p = at::softmax(outputs, 1).permute({1, 0, 2, 3}).flatten(1);  // [classes, pixels]
    const at::Tensor y = at::one_hot(targets.flatten(), outputs.size(1)).to(at::kFloat).t();
    const at::Tensor both = p.mul(y).sum(1), each = p.sum(1).add(y.sum(1));
    return both.mul(2).add(1).div(each.add(1)).mean().neg().add(1);
  }
};

class NumberTask : public AnyTask {
 public:
  NumberTask(const Experiment& experiment, bool labels) : AnyTask(experiment), labels_(labels) {}

  void check(const Samples& samples) const override {
    const std::size_t place = target_field(samples);
    const samples::Field& field = samples.fields()[place];
    const bool one = field.shape.empty() && experiment_.model.classes == 1;
    const bool fits = one || (field.shape.size() == 1 && field.shape[0] == experiment_.model.classes);
    if (!fits || field.element != samples::Element::float32)
      fail_shape(experiment_, field, fmt::format("{} numbers per sample", experiment_.model.classes));
    std::vector<float> values(static_cast<std::size_t>(field.elements()));
    for (std::int64_t id = 0; id < samples.count(); ++id) {
      samples.read(place, {&id, 1}, reinterpret_cast<std::byte*>(values.data()));
      for (const float value : values) {
        if (labels_ ? value == 0 || value == 1 : std::isfinite(value)) continue;
        throw UserError(samples.name(id), fmt::format("has the target {}", value),
                        labels_ ? "labels are 0 or 1" : "targets are finite numbers");
      }
    }
  }
  [[nodiscard]] at::Tensor loss(const at::Tensor& outputs, const at::Tensor& given, const at::Tensor& weights,
                                bool mean) const override {
    const at::Tensor targets = given.reshape(outputs.sizes());
    const auto reduced = [&](at::Reduction::Reduction reduction) {
      const std::string& name = experiment_.loss.name;
      if (labels_) return at::binary_cross_entropy_with_logits(outputs, targets, {}, {}, reduction);
      if (name == "l1") return at::l1_loss(outputs, targets, reduction);
      if (name == "huber") return at::huber_loss(outputs, targets, reduction, 1.0);
      return at::mse_loss(outputs, targets, reduction);
    };
    if (mean) return reduced(at::Reduction::Mean);
    if (!weights.defined()) return reduced(at::Reduction::Sum);
    return weighted_sum(reduced(at::Reduction::None), weights);
  }
  // A label is right where its logit's sign says so: above 0, yes. Errors are sums of |output - target| in binary64,
  // in the order of the samples.
  [[nodiscard]] Counts count(const at::Tensor& outputs, const at::Tensor& targets) const override {
    const at::Tensor dense = on_host(outputs).contiguous();
    const float *x = dense.const_data_ptr<float>(), *y = targets.const_data_ptr<float>();
    Counts counts;
    counts.targets = dense.numel();
    for (std::int64_t i = 0; i < dense.numel(); ++i) {
      if (labels_) counts.correct += (x[i] > 0) == (y[i] != 0);
      if (!labels_) counts.error += std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    }
    return counts;
  }
  [[nodiscard]] std::vector<std::int64_t> classes(const at::Tensor&) const override {
    throw std::logic_error("no class per sample");
  }
  [[nodiscard]] Metrics metrics(double loss_sum, double weight, const Counts& counts) const override {
    const auto targets = static_cast<double>(counts.targets);
    if (labels_) return {loss_sum / weight, static_cast<double>(counts.correct) / targets, "accuracy"};
    return {loss_sum / weight, counts.error / targets, "mean_absolute_error"};
  }

 private:
  bool labels_;
};

}  // namespace

std::unique_ptr<Task> make_task(const Experiment& experiment) {
  const std::string& target = experiment.data.target;
  if (target == "labels" || target == "value") return std::make_unique<NumberTask>(experiment, target == "labels");
  return std::make_unique<ClassTask>(experiment);
}

}  // namespace isobit::train
