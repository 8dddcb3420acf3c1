// Fully connected layers with ReLU.
#pragma once

#include "train/networks/layers.h"

namespace isobit::train::networks {

struct Mlp : Network {
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

}  // namespace isobit::train::networks
