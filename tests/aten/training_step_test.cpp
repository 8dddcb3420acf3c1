// Whole training steps: what the models and optimizers of PyTorch reach, forward, backward and update, is
// certified, exact or composite; the weights after some steps are those of stock in float64 within a bound;
// their bits depend on neither threads nor instruction set.
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "aten/classification.h"
#include "kernels/isa.h"
#include "operator_cases.h"

namespace isobit::test {
namespace {

// Parameters are made on first use and found again by order, so that a model is its forward function.
class Parameters {
 public:
  explicit Parameters(at::ScalarType type) : type_(type) {}
  Tensor get(at::IntArrayRef sizes) {
    if (next_ == all.size()) {
      const double fan = sizes.size() > 1 ? static_cast<double>(c10::multiply_integers(sizes.slice(1))) : 10;
      Tensor value = at::empty(sizes, at::kDouble);
      for (std::int64_t i = 0; i < value.numel(); ++i) {
        const double phase = 0.37 * static_cast<double>(i + 1) + static_cast<double>(all.size());
        value.data_ptr<double>()[i] = 1.5 * std::sin(phase) / std::sqrt(fan);
      }
      all.push_back(value.to(at::kFloat).to(type_).requires_grad_());
    }
    return all[next_++];
  }
  void rewind() { next_ = 0; }
  Tensors all;

 private:
  at::ScalarType type_;
  std::size_t next_ = 0;
};

Tensor linear(Parameters& p, const Tensor& x, std::int64_t out) {
  const Tensor w = p.get({out, x.size(1)});
  return at::linear(x, w, p.get({out}));
}
Tensor convolution(Parameters& p, const Tensor& x, std::int64_t out, std::int64_t k, std::int64_t stride,
                   std::int64_t pad) {
  return at::conv2d(x, p.get({out, x.size(1), k, k}), {}, stride, pad);
}
Tensor batch_norm(Parameters& p, const Tensor& x) {
  const Tensor w = p.get({x.size(1)});
  return at::batch_norm(x, w.add(1), p.get({x.size(1)}), {}, {}, true, 0.1, 1e-5, false);
}

Tensor mlp(Parameters& p, const Tensor& x) { return linear(p, at::relu(linear(p, x.flatten(1), 32)), 10); }
Tensor lenet5(Parameters& p, Tensor x) {
  x = at::max_pool2d(at::relu(convolution(p, x, 6, 5, 1, 2)), 2);
  x = at::avg_pool2d(at::tanh(convolution(p, x, 16, 5, 1, 0)), 2);
  x = at::sigmoid(linear(p, x.flatten(1), 84));
  return linear(p, x, 10);
}
Tensor basic_block(Parameters& p, const Tensor& x, std::int64_t out, std::int64_t stride) {
  Tensor y = batch_norm(p, convolution(p, x, out, 3, stride, 1));
  at::relu_(y);
  y = batch_norm(p, convolution(p, y, out, 3, 1, 1));
  y += stride == 1 ? x : batch_norm(p, convolution(p, x, out, 1, stride, 0));
  return at::relu_(y);
}
Tensor resnet(Parameters& p, Tensor x) {
  x = batch_norm(p, convolution(p, x, 8, 7, 2, 3));
  x = at::max_pool2d(at::relu_(x), 3, 2, 1);
  x = basic_block(p, basic_block(p, x, 8, 1), 16, 2);
  return linear(p, at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), 10);
}

using Model = Tensor (*)(Parameters&, Tensor);
const std::map<std::string, Model> kModels = {
    {"mlp", [](Parameters& p, Tensor x) { return mlp(p, x); }}, {"lenet5", &lenet5}, {"resnet", &resnet}};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name, const Tensors& parameters) {
  using namespace torch::optim;
  if (name == "sgd") {
    return std::make_unique<SGD>(parameters, SGDOptions(0.02).momentum(0.9).nesterov(true).weight_decay(1e-3));
  }
  if (name == "adam") return std::make_unique<Adam>(parameters, AdamOptions(1e-3).weight_decay(1e-3));
  return std::make_unique<AdamW>(parameters, AdamWOptions(1e-3));
}

Tensors train(Model model, const std::string& optimizer_name, at::ScalarType type, int steps) {
  Tensor x = at::empty({6, 1, 28, 28}, at::kDouble);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    x.data_ptr<double>()[i] = std::sin(0.11 * static_cast<double>(i * i % 9973));
  }
  x = x.to(at::kFloat).to(type);
  const Tensor target = at::arange(6);
  Parameters parameters(type);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  for (int step = 0; step < steps; ++step) {
    parameters.rewind();
    const Tensor loss = at::cross_entropy_loss(model(parameters, x), target);
    if (!optimizer) optimizer = make_optimizer(optimizer_name, parameters.all);
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
  }
  Tensors weights;
  for (const Tensor& w : parameters.all) weights.push_back(w.detach());
  return weights;
}

TEST(TrainingStep, FollowsStockInFloat64) {
  at::set_num_threads(1);  // small tensors: stock waits for its threads longer than it computes
  for (const auto& [name, model] : kModels) {
    for (const std::string optimizer : {"sgd", "adam", "adamw"}) {
      SCOPED_TRACE(name + " " + optimizer);
      const Tensors expected = train(model, optimizer, at::kDouble, 5);
      Tensors ours;
      {
        const aten::OperatorSwitch on;
        ours = train(model, optimizer, at::kFloat, 5);
      }
      for (std::size_t i = 0; i < ours.size(); ++i) {
        const double error = at::max(at::abs(ours[i].to(at::kDouble) - expected[i])).item<double>();
        EXPECT_LT(error, 2e-4) << "parameter " << i;
      }
    }
  }
}

TEST(TrainingStep, BitsDependOnNeitherThreadsNorInstructionSet) {
  const aten::OperatorSwitch on;
  for (const auto& [name, model] : kModels) {
    Tensors expected;
    for (const kernels::Isa isa : kernels::available_isas()) {
      const kernels::IsaScope scope(isa);
      for (const int threads : {1, 3}) {
        const kernels::ThreadCountScope count(threads);
        const Tensors weights = train(model, "sgd", at::kFloat, 2);
        if (expected.empty()) expected = weights;
        EXPECT_TRUE(same_bits(weights, expected)) << name << " " << kernels::name(isa) << " " << threads;
      }
    }
  }
}

std::set<std::string>& seen() {
  static std::set<std::string> operators;
  return operators;
}

TEST(TrainingStep, ReachesNoOperatorThatIsRefused) {
  const auto callback = at::RecordFunctionCallback([](const at::RecordFunction& function) {
                          if (const auto op = function.operator_name()) {
                            seen().insert(op->name + "|" + op->overload_name);
                          }
                          return std::unique_ptr<at::ObserverContext>();
                        }).scopes({at::RecordScope::FUNCTION});
  {
    const aten::OperatorSwitch on;
    const auto handle = at::addThreadLocalCallback(callback);
    for (const auto& [name, model] : kModels) {
      for (const std::string optimizer : {"sgd", "adam", "adamw"}) train(model, optimizer, at::kFloat, 2);
    }
    at::removeCallback(handle);
  }
  std::set<std::string> certified;
  for (const std::string& full : seen()) {
    const auto bar = full.find('|');
    const auto info = aten::classify(full.substr(0, bar), full.substr(bar + 1));
    EXPECT_NE(info.kind, aten::OperatorClass::refused) << full;
    if (info.kind == aten::OperatorClass::certified) certified.insert(info.name);
  }
  for (const char* name : {"aten::addmm",
                           "aten::mm",
                           "aten::convolution",
                           "aten::convolution_backward",
                           "aten::native_batch_norm",
                           "aten::native_batch_norm_backward",
                           "aten::_log_softmax",
                           "aten::_log_softmax_backward_data",
                           "aten::nll_loss_forward",
                           "aten::nll_loss_backward",
                           "aten::max_pool2d_with_indices",
                           "aten::max_pool2d_with_indices_backward",
                           "aten::avg_pool2d",
                           "aten::avg_pool2d_backward",
                           "aten::threshold_backward",
                           "aten::tanh_backward",
                           "aten::sigmoid_backward",
                           "aten::sum",
                           "aten::mean",
                           "aten::addcmul_",
                           "aten::addcdiv_",
                           "aten::add_"}) {
    EXPECT_TRUE(certified.count(name)) << name << " was not reached";
  }
}

}  // namespace
}  // namespace isobit::test
