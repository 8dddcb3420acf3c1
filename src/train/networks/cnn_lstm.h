// Convolutions over an image, then a recurrent network over its columns, whose last state is classified: the shape of
// recognisers for signals (time along the width) and of text lines. LSTM: Hochreiter, Schmidhuber, 1997.
#pragma once

#include <torch/nn/modules/rnn.h>

#include "train/networks/layers.h"

namespace isobit::train::networks {

struct CnnLstm : Network {
  CnnLstm(const ModelSettings& settings, std::int64_t channels, std::int64_t height)
      : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(channels, 16, 3).padding(1)))),
        conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)))),
        lstm(register_module(
            "lstm", nn::LSTM(nn::LSTMOptions(32 * (height / 4), width_of(settings)).num_layers(depth_of(settings))))),
        fc(register_module("fc", nn::Linear(width_of(settings), settings.classes))),
        dropout(settings.dropout) {}
  static std::int64_t width_of(const ModelSettings& settings) { return settings.width > 0 ? settings.width : 128; }
  static std::int64_t depth_of(const ModelSettings& settings) { return settings.depth > 0 ? settings.depth : 1; }
  static Start start(const nn::Module& module, const std::string& leaf, const at::Tensor& /*tensor*/) {
    if (const auto* lstm = module.as<nn::LSTM>())
      return {Start::uniform, 1.0 / std::sqrt(static_cast<double>(lstm->options.hidden_size()))};
    return usual_start(module, leaf);
  }

  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(at::relu(call("conv1", conv1, x)), {2, 2});
    x = at::max_pool2d(at::relu(call("conv2", conv2, x)), {2, 2});
    x = x.permute({3, 0, 1, 2}).flatten(2);  // [columns, n, channels * rows]
    {
      const ModuleScope scope("lstm");
      x = std::get<0>(lstm->forward(x)).select(0, -1);
    }
    if (dropout > 0) x = at::dropout(x, dropout, is_training());
    return call("fc", fc, x);
  }

  nn::Conv2d conv1, conv2;
  nn::LSTM lstm;
  nn::Linear fc;
  double dropout;
};

}  // namespace isobit::train::networks
