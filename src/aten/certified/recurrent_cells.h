// Recurrent cells as compositions of certified operators, and layers made of them step by step: what devices compute,
// and what the host's fused layers equal bit for bit (contract, section 11). Private to this folder. Thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/recurrent.h"

namespace isobit::aten {

// Undefined biases: none. projection [projected, hidden], LSTM only: the next h is its product with it; undefined:
// none.
struct CellWeights {
  at::Tensor input, hidden, input_bias, hidden_bias, projection = {};
};
// c undefined but for LSTM. product_h: h as the product with the weight takes it, where that is a tensor of its own;
// autograd then adds the gradients of both to h one after the other.
struct CellState {
  at::Tensor h, c, product_h = {};
};

[[nodiscard]] CellState cell_step(kernels::RecurrentCell cell, const at::Tensor& x, const CellState& state,
                                  const CellWeights& weights);

// One layer in one direction: x [all rows, width], step t's rows after those of the steps before. y [all rows, width of
// h], and the last state of every sequence.
struct CellSequence {
  at::Tensor y;
  CellState last;
};
[[nodiscard]] CellSequence step_by_step(kernels::RecurrentCell cell, const at::Tensor& x,
                                        const std::vector<std::int64_t>& rows, bool reverse, const CellState& first,
                                        const CellWeights& weights);

}  // namespace isobit::aten
