#include "bench/workload.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <stdexcept>

#include "bench/bench.h"

namespace isobit::bench {
namespace {

train::OptimizerSettings momentum_sgd() {
  train::OptimizerSettings settings;
  settings.lr = 0.01;
  settings.momentum = 0.9;
  return settings;
}

train::ModelSettings model(const char* name, std::int64_t width = 0, std::int64_t depth = 0) {
  train::ModelSettings settings;
  settings.name = name;
  settings.width = width;
  settings.depth = depth;
  return settings;
}

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = [] {
    std::vector<Workload> list = {{"mlp", model("mlp"), 64, 28},
                                  {"lenet5", model("lenet5"), 64, 28},
                                  {"resnet18-32", model("resnet18"), 64, 32},
                                  {"resnet18-224", model("resnet18"), 8, 224},
                                  {"unet", model("unet"), 8, 64},
                                  {"cnn_lstm", model("cnn_lstm"), 64, 28},
                                  {"transformer", model("transformer"), 64, 28},
                                  {"vit_tiny", model("vit_tiny"), 16, 28},
                                  {"gpt2", model("gpt2", 768, 12), 1, 256}};
    list[3].model.stem = "imagenet";
    list.back().model.classes = 50257;
    return list;
  }();
  return all;
}

}  // namespace

const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Workload& work : workloads()) all.push_back(work.name);
    return all;
  }();
  return names;
}

Workload workload(const std::string& name) {
  for (const Workload& work : workloads()) {
    if (work.name == name) return work;
  }
  throw std::invalid_argument("unknown model '" + name + "'");
}

BenchSide::BenchSide(const Workload& work, bool channels_last)
    : model_(train::make_model(work.model, work.size, work.size, 1)) {
  if (work.model.name == "gpt2") {
    x_ = at::randint(work.model.classes, {work.batch, work.size}, at::kLong);
    target_ = at::randint(work.model.classes, {work.batch * work.size}, at::kLong);
  } else {
    x_ = at::randn({work.batch, 1, work.size, work.size});
    target_ = at::arange(work.batch).remainder(10);
    if (work.model.name == "unet") target_ = at::randint(10, {work.batch, work.size, work.size}, at::kLong);
  }
  for (const train::NamedTensor& parameter : model_->parameters()) {
    at::Tensor tensor = parameter.tensor;
    if (channels_last && tensor.dim() == 4) {
      const at::NoGradGuard no_grad;
      tensor.set_data(tensor.contiguous(at::MemoryFormat::ChannelsLast));
    }
    parameters_.push_back(tensor);
  }
  if (channels_last && x_.dim() == 4) x_ = x_.contiguous(at::MemoryFormat::ChannelsLast);
  model_->set_training(true);
}

void BenchSide::backward() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
  const at::Tensor logits = model_->forward(x_);
  at::cross_entropy_loss(x_.dim() == 2 ? logits.flatten(0, 1) : logits, target_).backward();
}

void BenchSide::stock_optimizer() {
  const at::NoGradGuard no_grad;
  if (momenta_.empty()) {  // here, or the other side would pay for them in memory
    for (const at::Tensor& parameter : parameters_) momenta_.push_back(at::zeros_like(parameter.detach()));
  }
  at::_fused_sgd_(parameters_, gradients(), momenta_, 0.0, 0.9, 0.01, 0.0, false, false, false);
}

void BenchSide::isobit_optimizer() {
  const at::NoGradGuard no_grad;
  if (!optimizer_) optimizer_ = std::make_unique<train::Optimizer>(momentum_sgd(), model_->parameters());
  optimizer_->step(++steps_, 0.01, gradients());
}

void BenchSide::stock_step() {
  backward();
  stock_optimizer();
}

void BenchSide::isobit_step() {
  backward();
  isobit_optimizer();
}

void BenchSide::inference() {
  const at::NoGradGuard no_grad;
  (void)model_->forward(x_);
}

double BenchSide::parameter_gbytes() const {
  double bytes = 0;
  for (const at::Tensor& parameter : parameters_) bytes += static_cast<double>(parameter.nbytes());
  return 1e-9 * bytes;
}

std::vector<at::Tensor> BenchSide::gradients() const {
  std::vector<at::Tensor> found;
  for (const at::Tensor& parameter : parameters_) found.push_back(parameter.grad());
  return found;
}

// The better layout for stock, by a few steps of each.
bool channels_last_is_faster(const Workload& work, int threads, bool inference) {
  double took[2];
  for (int layout : {0, 1}) {
    BenchSide side(work, layout == 1);
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

}  // namespace isobit::bench
