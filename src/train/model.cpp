#include "train/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "archive/user_error.h"
#include "aten/module_path.h"
#include "contract/philox.h"
#include "kernels/random.h"
#include "train/networks/cnn_lstm.h"
#include "train/networks/gpt2.h"
#include "train/networks/lenet5.h"
#include "train/networks/mlp.h"
#include "train/networks/resnet18.h"
#include "train/networks/transformer.h"
#include "train/networks/unet.h"
#include "train/networks/vit.h"
#include "train/purposes.h"
#include "train/torchscript_model.h"

namespace isobit::train {
namespace {

namespace nn = torch::nn;
using archive::UserError;
using aten::ModuleScope;
using networks::Start;

std::vector<NamedTensor> sorted(const torch::OrderedDict<std::string, at::Tensor>& dict) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : dict) tensors.push_back({item.key(), item.value()});
  return trace::sorted_by_name(std::move(tensors));
}

template <class Net>
class TorchModel : public Model {
 public:
  TorchModel(std::shared_ptr<Net> net, std::uint64_t seed, c10::Device device) : net_(std::move(net)) {
    for (const auto& module : net_->modules()) {
      if (auto* norm = module->template as<nn::BatchNorm2d>())
        norms_.push_back({norm, norm->options.momentum().value()});
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
      const std::string owner = dot == std::string::npos ? "" : name.substr(0, dot),
                        leaf = dot == std::string::npos ? name : name.substr(dot + 1);
      const Start start =
          Net::start(owner.empty() ? static_cast<const nn::Module&>(*net_) : *modules[owner], leaf, tensor);
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

namespace {

[[noreturn]] void fail_size(const ModelSettings& settings, std::int64_t height, std::int64_t width,
                            const std::string& remedy) {
  throw UserError("model.name", fmt::format("{} does not fit images of {}x{} pixels", settings.name, height, width),
                  remedy);
}

void expect_heads(const ModelSettings& settings, std::int64_t width) {
  const std::int64_t heads = networks::heads_of(settings, width);
  if (width % heads == 0) return;
  throw UserError("model.heads", fmt::format("{} heads do not divide the width {}", heads, width),
                  "choose a divisor, or another model.width");
}

std::unique_ptr<Model> make_unet(const ModelSettings& settings, std::int64_t height, std::int64_t width,
                                 std::uint64_t seed, c10::Device device) {
  const std::int64_t depth = networks::UNet::depth_of(settings), side = std::int64_t{1} << depth;
  if (depth > 6) throw UserError("model.depth", fmt::format("unet cannot have {} levels", depth), "choose 6 at most");
  if (height % side != 0 || width % side != 0) {
    fail_size(settings, height, width,
              fmt::format("with model.depth = {}, use images whose sides are multiples of {}", depth, side));
  }
  return wrap(std::make_shared<networks::UNet>(settings), seed, device);
}

std::unique_ptr<Model> make_vit(const ModelSettings& settings, std::int64_t height, std::int64_t width,
                                std::uint64_t seed, c10::Device device) {
  if (height % settings.patch != 0 || width % settings.patch != 0) {
    fail_size(settings, height, width,
              fmt::format("with model.patch = {}, use images whose sides are multiples of it", settings.patch));
  }
  expect_heads(settings, networks::VitTiny::width_of(settings));
  return wrap(std::make_shared<networks::VitTiny>(settings, height, width), seed, device);
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelSettings& settings, std::int64_t height, std::int64_t width,
                                  std::uint64_t seed, c10::Device device) {
  if (settings.name == "torchscript") return make_torchscript_model(settings, device);
  if (settings.name == "mlp") return wrap(std::make_shared<networks::Mlp>(settings, height * width), seed, device);
  if (settings.name == "resnet18") return wrap(std::make_shared<networks::ResNet18>(settings), seed, device);
  if (settings.name == "unet") return make_unet(settings, height, width, seed, device);
  if (settings.name == "vit_tiny") return make_vit(settings, height, width, seed, device);
  if (settings.name == "gpt2") return wrap(std::make_shared<networks::Gpt2>(settings), seed, device);
  if (settings.name == "cnn_lstm") {
    if (height < 4 || width < 4) fail_size(settings, height, width, "use images of 4x4 or more");
    return wrap(std::make_shared<networks::CnnLstm>(settings, height), seed, device);
  }
  if (settings.name == "transformer") {
    expect_heads(settings, networks::Transformer::width_of(settings));
    return wrap(std::make_shared<networks::Transformer>(settings, height, width), seed, device);
  }
  if (height < 12 || width < 12)
    fail_size(settings, height, width, "use images of 12x12 or more, or model.name = \"mlp\"");
  return wrap(std::make_shared<networks::LeNet5>(settings, height, width), seed, device);
}

}  // namespace isobit::train
