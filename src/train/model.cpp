#include "train/model.h"

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>

#include "archive/user_error.h"
#include "aten/module_path.h"
#include "contract/philox.h"
#include "kernels/random.h"
#include "train/purposes.h"

namespace isobit::train {
namespace {

namespace nn = torch::nn;
using aten::ModuleScope;
using archive::UserError;

// Calls a layer under its name, so that a refusal says where it happened.
template <class Layer>
at::Tensor call(const char* name, Layer& layer, const at::Tensor& x) {
  const ModuleScope scope(name);
  return layer->forward(x);
}

struct Mlp : nn::Module {
  Mlp(const ModelSettings& settings, std::int64_t inputs) : dropout(settings.dropout) {
    std::vector<std::int64_t> widths = settings.hidden;
    widths.push_back(settings.classes);
    for (const std::int64_t width : widths) {
      const std::string name = fmt::format("fc{}", layers.size() + 1);
      layers.push_back({name, register_module(name, nn::Linear(inputs, width))});
      inputs = width;
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = x.flatten(1);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = call(layers[i].name.c_str(), layers[i].linear, x);
      if (i + 1 == layers.size()) break;
      x = at::relu(x);
      if (dropout > 0) x = at::dropout(x, dropout, is_training());
    }
    return x;
  }
  struct Layer {
    std::string name;
    nn::Linear linear;
  };
  std::vector<Layer> layers;
  double dropout;
};

struct LeNet5 : nn::Module {
  LeNet5(const ModelSettings& settings, std::int64_t height, std::int64_t width)
      : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(1, 6, 5).padding(2)))),
        conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(6, 16, 5)))),
        fc1(register_module("fc1", nn::Linear(16 * ((height / 2 - 4) / 2) * ((width / 2 - 4) / 2), 120))),
        fc2(register_module("fc2", nn::Linear(120, 84))),
        fc3(register_module("fc3", nn::Linear(84, settings.classes))),
        dropout(settings.dropout) {}
  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(at::relu(call("conv1", conv1, x)), {2, 2});
    x = at::max_pool2d(at::relu(call("conv2", conv2, x)), {2, 2});
    x = at::relu(call("fc1", fc1, x.flatten(1)));
    x = at::relu(call("fc2", fc2, x));
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("fc3", fc3, x);
  }
  nn::Conv2d conv1, conv2;
  nn::Linear fc1, fc2, fc3;
  double dropout;
};

nn::Conv2d plain_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BasicBlock : nn::Module {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1(register_module("conv1", plain_conv(in, out, 3, stride))),
        bn1(register_module("bn1", nn::BatchNorm2d(out))),
        conv2(register_module("conv2", plain_conv(out, out, 3, 1))),
        bn2(register_module("bn2", nn::BatchNorm2d(out))) {
    if (stride == 1 && in == out) return;
    const auto downsample = register_module("downsample", std::make_shared<nn::Module>());
    shortcut = downsample->register_module("0", plain_conv(in, out, 1, stride));
    shortcut_norm = downsample->register_module("1", nn::BatchNorm2d(out));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = at::relu(call("bn1", bn1, call("conv1", conv1, x)));
    y = call("bn2", bn2, call("conv2", conv2, y));
    const bool same = shortcut.is_empty();
    return at::relu(y + (same ? x : call("downsample.1", shortcut_norm, call("downsample.0", shortcut, x))));
  }
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  nn::Conv2d conv2;
  nn::BatchNorm2d bn2;
  nn::Conv2d shortcut{nullptr};
  nn::BatchNorm2d shortcut_norm{nullptr};
};

struct ResNet18 : nn::Module {
  explicit ResNet18(const ModelSettings& settings)
      : small(settings.stem == "small"),
        conv1(register_module("conv1", small ? plain_conv(1, 64, 3, 1) : plain_conv(1, 64, 7, 2))),
        bn1(register_module("bn1", nn::BatchNorm2d(64))),
        fc(register_module("fc", nn::Linear(512, settings.classes))),
        dropout(settings.dropout) {
    std::int64_t in = 64;
    for (int stage = 1; stage <= 4; ++stage) {
      const std::int64_t out = std::int64_t{32} << stage;
      const auto layer = register_module(fmt::format("layer{}", stage), std::make_shared<nn::Module>());
      for (int place = 0; place < 2; ++place) {
        const std::int64_t stride = place == 0 && stage > 1 ? 2 : 1;
        blocks.push_back({fmt::format("layer{}.{}", stage, place),
                          layer->register_module(std::to_string(place), std::make_shared<BasicBlock>(in, out, stride))});
        in = out;
      }
    }
  }
  at::Tensor forward(at::Tensor x) {
    x = at::relu(call("bn1", bn1, call("conv1", conv1, x)));
    if (!small) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (auto& [name, block] : blocks) x = call(name.c_str(), block, x);
    x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("fc", fc, x);
  }
  struct NamedBlock {
    std::string name;
    std::shared_ptr<BasicBlock> block;
  };
  bool small;
  nn::Conv2d conv1;
  nn::BatchNorm2d bn1;
  std::vector<NamedBlock> blocks;
  nn::Linear fc;
  double dropout;
};

std::vector<NamedTensor> sorted(const torch::OrderedDict<std::string, at::Tensor>& dict) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : dict) tensors.push_back({item.key(), item.value()});
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  return tensors;
}

// How a parameter starts; see the header.
struct Start {
  enum { uniform, normal, constant } kind = constant;
  double value = 0;  // bound, deviation or the constant
};

double fan_in_bound(const at::Tensor& weight) {
  return 1.0 / std::sqrt(static_cast<double>(weight.numel() / weight.size(0)));
}

Start start_of(const nn::Module& module, const std::string& leaf, bool residual) {
  if (const auto* linear = module.as<nn::Linear>()) return {Start::uniform, fan_in_bound(linear->weight)};
  if (const auto* conv = module.as<nn::Conv2d>()) {
    if (!residual) return {Start::uniform, fan_in_bound(conv->weight)};
    const at::Tensor& weight = conv->weight;
    return {Start::normal, std::sqrt(2.0 / static_cast<double>(weight.numel() / weight.size(1)))};
  }
  return {Start::constant, leaf == "weight" ? 1.0 : 0.0};
}

template <class Net>
class TorchModel : public Model {
 public:
  TorchModel(std::shared_ptr<Net> net, std::uint64_t seed, c10::Device device) : net_(std::move(net)) {
    for (const auto& module : net_->modules()) {
      if (auto* norm = module->template as<nn::BatchNorm2d>()) norms_.push_back({norm, norm->options.momentum().value()});
    }
    set_initial_weights(seed);
    net_->to(device);
  }

  at::Tensor forward(const at::Tensor& x) override {
    const ModuleScope scope("model");
    return net_->forward(x);
  }
  void set_training(bool training) override { net_->train(training); }
  std::vector<NamedTensor> parameters() const override { return sorted(net_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return sorted(net_->named_buffers()); }
  std::vector<BatchStatistics> batch_statistics() const override {
    std::vector<BatchStatistics> all;
    for (const auto& [norm, momentum] : norms_) all.push_back({norm->running_mean, norm->running_var, momentum});
    return all;
  }
  void store_batch_statistics(bool raw) override {
    for (auto& [norm, momentum] : norms_) norm->options.momentum(raw ? 1.0 : momentum);
  }

 private:
  void set_initial_weights(std::uint64_t seed) {
    std::uint64_t place = 0;
    const auto modules = net_->named_modules();
    for (auto& [name, tensor] : parameters()) {
      const auto dot = name.rfind('.');
      const Start start = start_of(*modules[name.substr(0, dot)], name.substr(dot + 1), std::is_same_v<Net, ResNet18>);
      const auto purpose = static_cast<std::uint32_t>(Purpose::initial_weights);
      const std::uint64_t key = contract::derive_key(seed, purpose, place++, 0);
      float* out = tensor.template mutable_data_ptr<float>();
      const auto value = static_cast<float>(start.value);
      if (start.kind == Start::uniform) kernels::fill_uniform(key, 0, -value, value, out, tensor.numel());
      if (start.kind == Start::normal) kernels::fill_normal(key, 0, 0.0f, value, out, tensor.numel());
      if (start.kind == Start::constant) std::fill_n(out, tensor.numel(), value);
    }
  }

  struct Norm {
    nn::BatchNorm2dImpl* module;
    double momentum;
  };
  std::shared_ptr<Net> net_;
  std::vector<Norm> norms_;
};

template <class Net>
std::unique_ptr<Model> wrap(std::shared_ptr<Net> net, std::uint64_t seed, c10::Device device) {
  return std::make_unique<TorchModel<Net>>(std::move(net), seed, device);
}

}  // namespace

std::vector<NamedTensor> Model::state() const {
  std::vector<NamedTensor> all = parameters();
  for (NamedTensor& buffer : buffers()) all.push_back(std::move(buffer));
  return all;
}

std::unique_ptr<Model> make_model(const ModelSettings& settings, std::int64_t height, std::int64_t width, std::uint64_t seed,
                                  c10::Device device) {
  if (settings.name == "mlp") return wrap(std::make_shared<Mlp>(settings, height * width), seed, device);
  if (settings.name == "resnet18") return wrap(std::make_shared<ResNet18>(settings), seed, device);
  if (height < 12 || width < 12) {
    throw UserError("model.name", fmt::format("lenet5 does not fit images of {}x{} pixels", height, width),
                    "use images of 12x12 or more, or model.name = \"mlp\"");
  }
  return wrap(std::make_shared<LeNet5>(settings, height, width), seed, device);
}

}  // namespace isobit::train
