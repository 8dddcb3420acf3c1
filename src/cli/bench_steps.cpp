// Whole training steps: forward, cross entropy, backward, SGD with momentum.
//
// Both sides run the same module class with the same weights through autograd. Stock runs at its best: oneDNN
// on, the fused optimizer, the better of contiguous and channels-last layouts. isobit runs with switch and
// guard on and its own fused optimizer.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <stdexcept>

#include "cli/bench.h"
#include "train/model.h"
#include "train/optimizer.h"

namespace isobit::cli {
namespace {

struct Workload {
  std::string name;
  train::ModelSettings model;
  std::int64_t batch, size;
};

Workload workload(const std::string& name) {
  train::ModelSettings model;
  if (name == "mlp") return {name, model, 64, 28};
  if (name == "lenet5") {
    model.name = "lenet5";
    return {name, model, 64, 28};
  }
  model.name = "resnet18";
  if (name == "resnet18-32") return {name, model, 64, 32};
  model.stem = "imagenet";
  if (name == "resnet18-224") return {name, model, 8, 224};
  throw std::invalid_argument("unknown model '" + name + "' (mlp, lenet5, resnet18-32, resnet18-224)");
}

train::OptimizerSettings momentum_sgd() {
  train::OptimizerSettings settings;
  settings.lr = 0.01;
  settings.momentum = 0.9;
  return settings;
}

// One side's model, input and optimizer state; step() is one training step.
class Side {
 public:
  Side(const Workload& work, bool channels_last)
      : model_(train::make_model(work.model, work.size, work.size, 1)),
        x_(at::randn({work.batch, 1, work.size, work.size})),
        target_(at::arange(work.batch).remainder(10)) {
    for (const train::NamedTensor& parameter : model_->parameters()) {
      at::Tensor tensor = parameter.tensor;
      if (channels_last && tensor.dim() == 4) {
        const c10::NoGradGuard no_grad;
        tensor.set_data(tensor.contiguous(at::MemoryFormat::ChannelsLast));
      }
      parameters_.push_back(tensor);
      momenta_.push_back(at::zeros_like(tensor.detach()));
    }
    if (channels_last) x_ = x_.contiguous(at::MemoryFormat::ChannelsLast);
    model_->set_training(true);
  }

  void stock_step() {
    backward();
    const c10::NoGradGuard no_grad;
    at::_fused_sgd_(parameters_, gradients(), momenta_, 0.0, 0.9, 0.01, 0.0, false, false, false);
  }

  void isobit_step() {
    backward();
    const c10::NoGradGuard no_grad;
    if (!optimizer_) optimizer_ = std::make_unique<train::Optimizer>(momentum_sgd(), model_->parameters());
    optimizer_->step(++steps_, 0.01, gradients());
  }

  void inference() {
    const c10::NoGradGuard no_grad;
    (void)model_->forward(x_);
  }
  void evaluation_mode() { model_->set_training(false); }

 private:
  void backward() {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
    at::cross_entropy_loss(model_->forward(x_), target_).backward();
  }
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> found;
    for (const at::Tensor& parameter : parameters_) found.push_back(parameter.grad());
    return found;
  }

  std::unique_ptr<train::Model> model_;
  at::Tensor x_, target_;
  std::vector<at::Tensor> parameters_, momenta_;
  std::unique_ptr<train::Optimizer> optimizer_;
  std::int64_t steps_ = 0;
};

// The better layout for stock, by a few steps of each.
bool channels_last_is_faster(const Workload& work, int threads, bool inference) {
  double took[2];
  for (int layout : {0, 1}) {
    Side side(work, layout == 1);
    if (inference) side.evaluation_mode();
    took[layout] = on_stock(threads, [&] {
      const auto one = [&] { inference ? side.inference() : side.stock_step(); };
      one();
      std::vector<double> times;
      for (int i = 0; i < 3; ++i) times.push_back(milliseconds(one, 1));
      return quantile(times, 0.5);
    });
  }
  return took[1] < took[0];
}

BenchRow bench_one(const Workload& work, int threads, const std::string& isa, int rounds, bool inference) {
  BenchRow row{.model = work.name + (inference ? " inference" : ""), .threads = threads, .isa = isa};
  Side stock(work, channels_last_is_faster(work, threads, inference)), ours(work, false);
  if (inference) {
    stock.evaluation_mode();
    ours.evaluation_mode();
  }
  measure(
      row,
      [&](int calls) {
        return on_stock(threads, [&] {
          return milliseconds([&] { inference ? stock.inference() : stock.stock_step(); }, calls);
        });
      },
      [&](int calls) {
        return on_isobit(threads, [&] {
          return milliseconds([&] { inference ? ours.inference() : ours.isobit_step(); }, calls);
        });
      },
      rounds, 30.0);
  return row;
}

}  // namespace

std::vector<BenchRow> bench_steps(const BenchOptions& options) {
  std::vector<BenchRow> rows;
  for (const std::string& name : options.models) {
    const Workload work = workload(name);
    for_each_setting(options, [&](int threads, const std::string& isa) {
      for (const bool inference : {false, true}) {
        if (inference && !options.inference) continue;
        rows.push_back(bench_one(work, threads, isa, options.rounds, inference));
        options.report(rows.back());
      }
    });
  }
  return rows;
}

}  // namespace isobit::cli
