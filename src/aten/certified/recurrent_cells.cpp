#include "aten/certified/recurrent_cells.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"

namespace isobit::aten {

using at::Tensor;
using kernels::RecurrentCell;
using Optional = std::optional<Tensor>;

namespace {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return at::linear(x, weight, bias.defined() ? Optional(bias) : Optional());
}

}  // namespace

CellState cell_step(RecurrentCell cell, const Tensor& x, const CellState& state, const CellWeights& w) {
  const Tensor& h = state.product_h.defined() ? state.product_h : state.h;
  const Tensor hidden = linear(h, w.hidden, w.hidden_bias), input = linear(x, w.input, w.input_bias);
  switch (cell) {
    case RecurrentCell::lstm: {
      const auto gates = hidden.add(input).unsafe_chunk(4, 1);
      const Tensor i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(), o = gates[3].sigmoid();
      const Tensor c = f.mul(state.c).add(i.mul(g));
      const Tensor next = o.mul(c.tanh());
      return {w.projection.defined() ? at::linear(next, w.projection) : next, c};
    }
    case RecurrentCell::gru: {
      const auto in = input.unsafe_chunk(3, 1), of_hidden = hidden.unsafe_chunk(3, 1);
      const Tensor r = of_hidden[0].add(in[0]).sigmoid(), z = of_hidden[1].add(in[1]).sigmoid();
      const Tensor n = in[2].add(of_hidden[2].mul(r)).tanh();
      return {state.h.sub(n).mul(z).add(n), {}};
    }
    case RecurrentCell::rnn_tanh: return {hidden.add(input).tanh(), {}};
    case RecurrentCell::rnn_relu: return {hidden.add(input).relu(), {}};
  }
  return {};
}

CellSequence step_by_step(RecurrentCell cell, const Tensor& x, const std::vector<std::int64_t>& rows, bool reverse,
                          const CellState& first, const CellWeights& weights) {
  const bool lstm = cell == RecurrentCell::lstm;
  const auto steps = static_cast<std::int64_t>(rows.size());
  const auto part = [&](const CellState& s, std::int64_t begin, std::int64_t end) -> CellState {
    return {s.h.narrow(0, begin, end - begin), lstm ? s.c.narrow(0, begin, end - begin) : Tensor()};
  };
  const auto joined = [&](const CellState& a, const CellState& b) -> CellState {
    return {at::cat({a.h, b.h}), lstm ? at::cat({a.c, b.c}) : Tensor()};
  };
  std::vector<std::int64_t> begin(rows.size(), 0);
  for (std::size_t t = 1; t < rows.size(); ++t) begin[t] = begin[t - 1] + rows[t - 1];
  std::vector<Tensor> outputs(rows.size());
  // Twice, so that h has the consumers it has in a sequence of steady rows.
  const auto fitted = [&](auto&& fit, const CellState& s) {
    CellState next = fit(s);
    next.product_h = next.h;
    next.h = fit(CellState{s.h, lstm ? s.c : Tensor()}).h;
    return next;
  };
  CellState state = part(first, 0, reverse ? rows.back() : rows.front()), ended;
  for (std::int64_t taken = 0; taken < steps; ++taken) {
    const std::int64_t t = reverse ? steps - 1 - taken : taken, count = state.h.size(0);
    if (rows[t] < count) {  // sequences that have ended leave the state
      const CellState left = part(state, rows[t], count);
      ended = ended.h.defined() ? joined(left, ended) : left;
      state = fitted([&](const CellState& s) { return part(s, 0, rows[t]); }, state);
    } else if (rows[t] > count) {  // from their end, shorter sequences begin later
      state = fitted([&](const CellState& s) { return joined(s, part(first, count, rows[t])); }, state);
    }
    state = cell_step(cell, x.narrow(0, begin[t], rows[t]), state, weights);
    outputs[t] = state.h;
  }
  return {at::cat(outputs), ended.h.defined() ? joined(state, ended) : state};
}

namespace {

Tensor given(const Optional& tensor) { return tensor ? *tensor : Tensor(); }

std::tuple<Tensor, Tensor> lstm_cell(const Tensor& x, at::TensorList state, const Tensor& w_ih, const Tensor& w_hh,
                                     const Optional& b_ih, const Optional& b_hh) {
  TORCH_CHECK(state.size() == 2, "aten::lstm_cell: two states expected, got ", state.size());
  require_float("aten::lstm_cell", {&x, &state[0], &state[1], &w_ih, &w_hh});
  const CellState next =
      cell_step(RecurrentCell::lstm, x, {state[0], state[1]}, {w_ih, w_hh, given(b_ih), given(b_hh)});
  return {next.h, next.c};
}

template <RecurrentCell cell>
Tensor one_state_cell(const Tensor& x, const Tensor& state, const Tensor& w_ih, const Tensor& w_hh,
                      const Optional& b_ih, const Optional& b_hh) {
  constexpr const char* op = cell == RecurrentCell::gru        ? "aten::gru_cell"
                             : cell == RecurrentCell::rnn_tanh ? "aten::rnn_tanh_cell"
                                                               : "aten::rnn_relu_cell";
  require_float(op, {&x, &state, &w_ih, &w_hh});
  return cell_step(cell, x, {state, {}}, {w_ih, w_hh, given(b_ih), given(b_hh)}).h;
}

}  // namespace

std::vector<Entry> recurrent_cell_operators() {
  constexpr std::string_view cell = "11: products, then the cell's formula";
  return {
      certify_layer<lstm_cell>("aten::lstm_cell", "", cell),
      certify_layer<one_state_cell<RecurrentCell::gru>>("aten::gru_cell", "", cell),
      certify_layer<one_state_cell<RecurrentCell::rnn_tanh>>("aten::rnn_tanh_cell", "", cell),
      certify_layer<one_state_cell<RecurrentCell::rnn_relu>>("aten::rnn_relu_cell", "", cell),
  };
}

}  // namespace isobit::aten
