#include "train/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    set_initial_weights(seed);
    net_->to(device);
  }

  at::Tensor forward(const std::vector<at::Tensor>& inputs) override {
    const ModuleScope scope("model");
    if (inputs.size() == 1) return net_->forward(inputs[0]);
    std::vector<at::Tensor> rows;
    for (const at::Tensor& input : inputs) rows.push_back(input.flatten(1));
    return net_->forward(at::cat(rows, 1));
  }
  void set_training(bool training) override { net_->train(training); }
  std::vector<NamedTensor> parameters() const override { return sorted(net_->named_parameters()); }
  std::vector<NamedTensor> buffers() const override { return sorted(net_->named_buffers()); }

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

  std::shared_ptr<Net> net_;
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

// What an image network is given.
struct ImageShape {
  std::int64_t channels = 1, height = 0, width = 0;
};

[[noreturn]] void fail_size(const ModelSettings& settings, const ImageShape& image, const std::string& remedy) {
  throw UserError("model.name",
                  fmt::format("{} does not fit images of {}x{} pixels", settings.name, image.height, image.width),
                  remedy);
}

void expect_heads(const ModelSettings& settings, std::int64_t width) {
  const std::int64_t heads = networks::heads_of(settings, width);
  if (width % heads == 0) return;
  throw UserError("model.heads", fmt::format("{} heads do not divide the width {}", heads, width),
                  "choose a divisor, or another model.width");
}

std::unique_ptr<Model> make_unet(const ModelSettings& settings, const ImageShape& image, std::uint64_t seed,
                                 c10::Device device) {
  const std::int64_t depth = networks::UNet::depth_of(settings), side = std::int64_t{1} << depth;
  if (depth > 6) throw UserError("model.depth", fmt::format("unet cannot have {} levels", depth), "choose 6 at most");
  if (image.height % side != 0 || image.width % side != 0) {
    fail_size(settings, image,
              fmt::format("with model.depth = {}, use images whose sides are multiples of {}", depth, side));
  }
  return wrap(std::make_shared<networks::UNet>(settings, image.channels), seed, device);
}

std::unique_ptr<Model> make_vit(const ModelSettings& settings, const ImageShape& image, std::uint64_t seed,
                                c10::Device device) {
  if (image.height % settings.patch != 0 || image.width % settings.patch != 0) {
    fail_size(settings, image,
              fmt::format("with model.patch = {}, use images whose sides are multiples of it", settings.patch));
  }
  expect_heads(settings, networks::VitTiny::width_of(settings));
  return wrap(std::make_shared<networks::VitTiny>(settings, image.channels, image.height, image.width), seed, device);
}

std::unique_ptr<Model> make_image_network(const ModelSettings& settings, const ImageShape& image, std::uint64_t seed,
                                          c10::Device device) {
  const auto [channels, height, width] = image;
  if (settings.name == "resnet18") return wrap(std::make_shared<networks::ResNet18>(settings, channels), seed, device);
  if (settings.name == "unet") return make_unet(settings, image, seed, device);
  if (settings.name == "vit_tiny") return make_vit(settings, image, seed, device);
  if (settings.name == "cnn_lstm") {
    if (height < 4 || width < 4) fail_size(settings, image, "use images of 4x4 or more");
    return wrap(std::make_shared<networks::CnnLstm>(settings, channels, height), seed, device);
  }
  if (settings.name == "transformer") {
    expect_heads(settings, networks::Transformer::width_of(settings));
    return wrap(std::make_shared<networks::Transformer>(settings, height, channels * width), seed, device);
  }
  if (height < 12 || width < 12) fail_size(settings, image, "use images of 12x12 or more, or model.name = \"mlp\"");
  return wrap(std::make_shared<networks::LeNet5>(settings, channels, height, width), seed, device);
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

[[noreturn]] void fail_input(const ModelSettings& settings, const samples::Field& field, const char* expected,
                             const char* remedy) {
  throw UserError("model.name",
                  fmt::format("{} takes {}, but the field '{}' has the shape {}", settings.name, expected, field.name,
                              shape_text(field.shape)),
                  remedy);
}

void expect_one_input(const ModelSettings& settings, const std::vector<samples::Field>& inputs) {
  if (inputs.size() == 1) return;
  std::vector<std::string> names;
  for (const samples::Field& field : inputs) names.push_back(field.name + " " + shape_text(field.shape));
  throw UserError(
      "model.name",
      fmt::format("{} takes one input, but the data has {}: {}", settings.name, inputs.size(), fmt::join(names, ", ")),
      "name one in data.inputs, or choose model.name = \"mlp\" or \"torchscript\"");
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelSettings& settings, const std::vector<samples::Field>& inputs,
                                  std::uint64_t seed, c10::Device device) {
  if (settings.name == "torchscript") return make_torchscript_model(settings, inputs, device);
  const bool tokens = settings.name == "gpt2";
  for (const samples::Field& field : inputs) {
    if (tokens == (field.element == samples::Element::int64)) continue;
    if (tokens) fail_input(settings, field, "tokens (integers) [window]", "choose data.format = \"text\"");
    fail_input(settings, field, "numbers, no integers", "choose model.name = \"gpt2\" for tokens, or convert the data");
  }
  if (settings.name == "mlp") {
    std::int64_t elements = 0;
    for (const samples::Field& field : inputs) elements += field.elements();
    return wrap(std::make_shared<networks::Mlp>(settings, elements), seed, device);
  }
  expect_one_input(settings, inputs);
  const samples::Field& input = inputs[0];
  if (tokens) {
    if (input.shape.size() != 1) fail_input(settings, input, "tokens [window]", "choose data.format = \"text\"");
    expect_heads(settings, networks::Gpt2::width_of(settings));
    return wrap(std::make_shared<networks::Gpt2>(settings, input.shape[0]), seed, device);
  }
  if (input.shape.size() != 3)
    fail_input(settings, input, "images [channels, height, width]", "choose model.name = \"mlp\", or reshape the data");
  return make_image_network(settings, {input.shape[0], input.shape[1], input.shape[2]}, seed, device);
}

std::unique_ptr<Model> make_model(const ModelSettings& settings, std::int64_t height, std::int64_t width,
                                  std::uint64_t seed, c10::Device device) {
  if (settings.name == "gpt2")
    return make_model(settings, {{"tokens", samples::Element::int64, {1024}, samples::Role::input}}, seed, device);
  return make_model(settings, {{"images", samples::Element::uint8, {1, height, width}, samples::Role::input}}, seed,
                    device);
}

}  // namespace isobit::train
