// LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998; with ReLU and max
// pooling.
#pragma once

#include "train/networks/layers.h"

namespace isobit::train::networks {

struct LeNet5 : Network {
  LeNet5(const ModelSettings& settings, std::int64_t channels, std::int64_t height, std::int64_t width)
      : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(channels, 6, 5).padding(2)))),
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

}  // namespace isobit::train::networks
