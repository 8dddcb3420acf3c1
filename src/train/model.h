// The networks that experiments name, as torch::nn modules behind a header that needs only ATen.
//
//   mlp       flatten, then Linear + ReLU (+ dropout) per hidden width, then Linear ("fc1", "fc2", ...)
//   lenet5    conv1 6@5x5 padding 2, ReLU, max pool 2; conv2 16@5x5, ReLU, max pool 2; fc1 120, fc2 84, fc3
//             (LeCun, Bottou, Bengio, Haffner, 1998; with ReLU and max pooling)
//   resnet18  He, Zhang, Ren, Sun, 2015; names as torchvision's; stem "imagenet": 7x7 stride 2 and max pool,
//             "small": 3x3 stride 1, no pool
//   unet, cnn_lstm, transformer, vit_tiny: networks/*.h say whose they are and how they differ
//   gpt2      tokens [n, t] to logits [n, t, classes]
//   torchscript  a file (torchscript_model.h)
//
// Initial weights (contract, section 5): parameter i in sorted order of names has key derive_key(seed,
// initial_weights, i, 0). Linear and convolution weights and biases: fill_uniform in (-b, b), b = RN32(1 /
// sqrt(fan in)) in binary64 (PyTorch's default); resnet18's convolutions: fill_normal with deviation
// RN32(sqrt(2 / fan out)); norms: weight 1, bias 0; LSTM: fill_uniform with b = RN32(1 / sqrt(hidden)); tokens and
// positions: fill_normal with deviation 0.02; in_proj_weight: fill_uniform with b = RN32(sqrt(6 / (rows + columns))),
// its bias 0. One thread per model.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "samples/samples.h"
#include "trace/tensor_fingerprint.h"
#include "train/experiment.h"

namespace isobit::train {

using trace::NamedTensor;

class Model {
 public:
  virtual ~Model() = default;

  // Of the inputs' fields, [n, shape...] each, in their order. Gives [n, classes], per pixel [n, classes, height,
  // width], per token [n, tokens, classes].
  [[nodiscard]] virtual at::Tensor forward(const std::vector<at::Tensor>& inputs) = 0;
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) { return forward(std::vector<at::Tensor>{x}); }
  virtual void set_training(bool training) = 0;

  // Sorted by name; the tensors share memory with the model.
  [[nodiscard]] virtual std::vector<NamedTensor> parameters() const = 0;
  [[nodiscard]] virtual std::vector<NamedTensor> buffers() const = 0;
  // Parameters and buffers.
  [[nodiscard]] std::vector<NamedTensor> state() const;
};

// On `device`, with the same initial weights everywhere. `inputs`: the fields that it will be given; only a mlp (which
// joins them) and TorchScript (which takes them by the names of its arguments) take several. Throws archive::UserError
// where the network does not fit them, naming both shapes.
[[nodiscard]] std::unique_ptr<Model> make_model(const ModelSettings& settings,
                                                const std::vector<samples::Field>& inputs, std::uint64_t seed,
                                                c10::Device device = c10::kCPU);
// For images of one channel.
[[nodiscard]] std::unique_ptr<Model> make_model(const ModelSettings& settings, std::int64_t height, std::int64_t width,
                                                std::uint64_t seed, c10::Device device = c10::kCPU);

}  // namespace isobit::train
