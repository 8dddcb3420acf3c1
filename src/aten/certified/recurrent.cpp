// LSTM, GRU and RNN as nn.LSTM, nn.GRU and nn.RNN call them: layers, directions, packed sequences (contract, section
// 11).
//
// PyTorch decides between several implementations within these operators (oneDNN's, a fused cell's, a composition);
// ours stand before that decision, and before autograd, as one autograd function per layer and direction. Devices take
// the composition of recurrent_cells.h, and so do projections (nn.LSTM's proj_size) everywhere.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/recurrent_cells.h"
#include "aten/certified/support/tensors.h"
#include "aten/plain_memory.h"
#include "aten/refusal.h"
#include "kernels/matmul.h"
#include "kernels/recurrent.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using at::TensorList;
using Optional = std::optional<Tensor>;
using kernels::RecurrentCell;
using kernels::RecurrentShape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const float* read(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr; }
float* write(const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr<float>() : nullptr; }
Tensor dense(const Tensor& tensor) { return tensor.defined() ? contiguous(tensor.resolve_neg()) : tensor; }

// One layer in one direction.
struct Direction {
  RecurrentCell cell;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> first;
  bool reverse = false;

  Direction(RecurrentCell c, std::vector<std::int64_t> r, bool backwards)
      : cell(c), rows(std::move(r)), first{0}, reverse(backwards) {
    for (const std::int64_t count : rows) first.push_back(first.back() + count);
  }
  [[nodiscard]] RecurrentShape shape(std::int64_t hidden) const {
    return {cell, static_cast<std::int64_t>(rows.size()), hidden, rows.data(), first.data(), reverse};
  }
};

Tensor copy_of(const Tensor& tensor) { return new_tensor(tensor.sizes()).copy_(tensor); }

// y [m, n] = a [m, k] times b, whose element (k, j) lies at k * b_row + j * b_column; plus the bias.
void multiply(const Tensor& a, std::int64_t n, const Tensor& b, std::int64_t b_row, std::int64_t b_column,
              const Tensor& bias, const Tensor& y) {
  kernels::MatmulProblem p;
  p.m = a.size(0), p.n = n, p.k = a.size(1);
  p.a = {read(a), 0, p.k, 1};
  p.b = {read(b), 0, b_row, b_column};
  if (bias.defined()) p.addend = {read(bias), 0, 0, 1};
  p.c = write(y), p.c_row_stride = n;
  kernels::matmul(p);
}

struct Saved {
  Tensor gates, cells, tanh_cells, hidden_n;
};
// All contiguous. `saved`: what backward needs; nullptr where there will be none.
CellSequence compute(const Direction& direction, const Tensor& x, const CellState& first, const CellWeights& w,
                     Saved* saved) {
  const std::int64_t hidden = w.hidden.size(1), all = x.size(0);
  const RecurrentShape shape = direction.shape(hidden);
  const bool lstm = shape.cell == RecurrentCell::lstm;
  const Tensor gates = new_tensor({all, shape.width()});
  multiply(x, shape.width(), w.input, 1, x.size(1), w.input_bias, gates);
  CellSequence result{new_tensor({all, hidden}), {copy_of(first.h), lstm ? copy_of(first.c) : Tensor()}};
  kernels::RecurrentForward p{.shape = shape,
                              .weight = read(w.hidden),
                              .bias = read(w.hidden_bias),
                              .gates = write(gates),
                              .h = write(result.last.h),
                              .c = write(result.last.c),
                              .y = write(result.y)};
  if (saved != nullptr) {
    saved->gates = gates;
    if (lstm) saved->cells = new_tensor(result.y.sizes()), saved->tanh_cells = new_tensor(result.y.sizes());
    if (shape.cell == RecurrentCell::gru) saved->hidden_n = new_tensor(result.y.sizes());
    p.cells = write(saved->cells), p.tanh_cells = write(saved->tanh_cells), p.hidden_n = write(saved->hidden_n);
  }
  kernels::recurrent_forward(p);
  return result;
}

// Between forward and backward `.data` may have been given other memory, which no version tells of.
void require_sizes_of_forward(const variable_list& saved, std::int64_t batch) {
  const Tensor &x = saved[0], &h = saved[1], &c = saved[2], &w_input = saved[3], &w_hidden = saved[4], &y = saved[5],
               &gates = saved[6];
  const std::int64_t rows = gates.size(0), width = gates.size(1), hidden = y.size(1);
  const bool same = x.dim() == 2 && x.size(0) == rows && w_input.sizes() == at::IntArrayRef({width, x.size(1)}) &&
                    w_hidden.sizes() == at::IntArrayRef({width, hidden}) && y.size(0) == rows &&
                    h.sizes() == at::IntArrayRef({batch, hidden}) && (!c.defined() || c.sizes() == h.sizes());
  TORCH_CHECK(same, "backward of aten::lstm, gru, rnn: a weight or an input has other sizes than in the forward pass");
}

struct Layer : torch::autograd::Function<Layer> {
  // The places of the arguments, for their gradients.
  enum Place { kX, kH, kC, kInput, kHidden, kInputBias, kHiddenBias, kPlaces };

  static variable_list forward(AutogradContext* context, const Tensor& given_x, const Tensor& h, const Optional& c,
                               const Tensor& w_input, const Tensor& w_hidden, const Optional& b_input,
                               const Optional& b_hidden, const Direction& direction) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Tensor x = dense(given_x);
    const CellState first{dense(h), c ? dense(*c) : Tensor()};
    const CellWeights w{dense(w_input), dense(w_hidden), b_input ? dense(*b_input) : Tensor(),
                        b_hidden ? dense(*b_hidden) : Tensor()};
    Saved saved;
    const CellSequence result = compute(direction, x, first, w, &saved);
    context->set_materialize_grads(false);
    context->save_for_backward(
        {x, first.h, first.c, w.input, w.hidden, result.y, saved.gates, saved.cells, saved.tanh_cells, saved.hidden_n});
    context->saved_data["cell"] = static_cast<std::int64_t>(direction.cell);
    context->saved_data["rows"] = direction.rows;
    context->saved_data["reverse"] = direction.reverse;
    context->saved_data["biases"] = b_input.has_value();
    if (!c) return {result.y, result.last.h};
    return {result.y, result.last.h, result.last.c};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      refuse("aten::lstm, gru, rnn", "have no second derivatives",
             "step a cell (nn.LSTMCell and so on): its bits are the same");
    }
    for (const Tensor& d : gradients) {
      if (!d.defined() || is_plain_memory(d) || d.is_neg()) continue;
      refuse("aten::lstm, gru, rnn", "have no derivatives of their gradients",
             "step a cell (nn.LSTMCell and so on): its bits are the same");
    }
    const auto saved = context->get_saved_variables();
    require_sizes_of_forward(saved, context->saved_data["rows"].toIntVector().at(0));
    const Tensor &x = saved[0], &h0 = saved[1], &c0 = saved[2], &w_input = saved[3], &w_hidden = saved[4],
                 &y = saved[5];
    const Direction direction(static_cast<RecurrentCell>(context->saved_data["cell"].toInt()),
                              context->saved_data["rows"].toIntVector(), context->saved_data["reverse"].toBool());
    const RecurrentShape shape = direction.shape(w_hidden.size(1));
    const bool lstm = shape.cell == RecurrentCell::lstm, gru = shape.cell == RecurrentCell::gru;
    const bool biases = context->saved_data["biases"].toBool();
    const auto asked = [&](Place place) {  // autograd counts the tensors that were given
      if ((place == kC && !lstm) || (place >= kInputBias && !biases)) return false;
      return context->needs_input_grad(static_cast<std::size_t>(place > kC && !lstm ? place - 1 : place));
    };
    const Tensor dy = dense(gradients[0]), dh = dense(gradients[1]), dc = lstm ? dense(gradients[2]) : Tensor();
    for (const Tensor* d : {&dy, &dh, &dc}) {
      if (d->defined()) require_float("aten::lstm, gru, rnn", *d);
    }

    variable_list d(kPlaces + 1);
    const Tensor dgates = new_tensor(saved[6].sizes()), dhidden = gru ? new_tensor(dgates.sizes()) : Tensor();
    if (asked(kH)) d[kH] = new_tensor(h0.sizes());
    if (lstm) d[kC] = new_tensor(c0.sizes());
    if (asked(kHidden)) d[kHidden] = new_tensor(w_hidden.sizes());
    if (asked(kHiddenBias)) d[kHiddenBias] = new_tensor({shape.width()});
    kernels::recurrent_backward({.shape = shape,
                                 .weight = read(w_hidden),
                                 .gates = read(saved[6]),
                                 .y = read(y),
                                 .cells = read(saved[7]),
                                 .tanh_cells = read(saved[8]),
                                 .hidden_n = read(saved[9]),
                                 .h0 = read(h0),
                                 .c0 = read(c0),
                                 .dy = read(dy),
                                 .dh = read(dh),
                                 .dc = read(dc),
                                 .dgates = write(dgates),
                                 .dhidden_gates = write(dhidden),
                                 .dh0 = write(d[kH]),
                                 .dc0 = write(d[kC]),
                                 .dbias = write(d[kHiddenBias]),
                                 .dweight = write(d[kHidden])});
    if (asked(kX)) {
      d[kX] = new_tensor(x.sizes());
      multiply(dgates, x.size(1), w_input, x.size(1), 1, {}, d[kX]);
    }
    if (asked(kInput)) {
      d[kInput] = new_tensor(w_input.sizes());
      kernels::step_products(shape, shape.width(), x.size(1), read(dgates), read(x), write(d[kInput]));
    }
    if (asked(kInputBias)) {
      if (!gru && d[kHiddenBias].defined()) {
        d[kInputBias] = copy_of(d[kHiddenBias]);  // the same sums
      } else {
        d[kInputBias] = new_tensor({shape.width()});
        kernels::step_sums(shape, shape.width(), read(dgates), write(d[kInputBias]));
      }
    }
    return d;
  }
};

CellSequence run_direction(const Direction& direction, const Tensor& x, const CellState& first, const CellWeights& w) {
  bool graph = false, wrapped = false;  // in what one node does not see
  for (const Tensor* t : {&x, &first.h, &first.c, &w.input, &w.hidden, &w.input_bias, &w.hidden_bias}) {
    graph |= t->defined() && t->requires_grad();
    wrapped |= t->defined() && !is_plain_memory(*t);
  }
  if (x.is_cuda() || w.projection.defined() || wrapped)
    return step_by_step(direction.cell, x, direction.rows, direction.reverse, first, w);
  if (!graph || !at::GradMode::is_enabled()) {
    return compute(direction, dense(x), {dense(first.h), dense(first.c)},
                   {dense(w.input), dense(w.hidden), dense(w.input_bias), dense(w.hidden_bias)}, nullptr);
  }
  const auto optional = [](const Tensor& t) { return t.defined() ? Optional(t) : Optional(); };
  const variable_list results = Layer::apply(x, first.h, optional(first.c), w.input, w.hidden, optional(w.input_bias),
                                             optional(w.hidden_bias), direction);
  return {results[0], {results[1], results.size() > 2 ? results[2] : Tensor()}};
}

// ---- layers and directions

struct Options {
  bool biases;
  std::int64_t layers;
  double dropout;
  bool train, bidirectional;
};

struct Network {
  Tensor y, h, c;
};

// x [all rows, width]; h and c [layers * directions, batch, hidden]; with projections h's last size is theirs.
Network run_network(const char* op, RecurrentCell cell, Tensor x, const std::vector<std::int64_t>& rows,
                    const Tensor& h, const Tensor& c, TensorList params, const Options& options) {
  const bool lstm = cell == RecurrentCell::lstm;
  const std::int64_t directions = options.bidirectional ? 2 : 1, all = options.layers * directions;
  const std::int64_t unprojected = options.biases ? 4 : 2;
  const bool projected = lstm && static_cast<std::int64_t>(params.size()) == all * (unprojected + 1);
  const std::int64_t each = unprojected + (projected ? 1 : 0);
  TORCH_CHECK(static_cast<std::int64_t>(params.size()) == all * each, op, ": ", all * each,
              " weight tensors expected, got ", params.size());
  TORCH_CHECK(!rows.empty(), op, ": a sequence needs at least one step");
  require_float(op, {&x, &h});
  for (const Tensor& p : params) require_float(op, p);
  TORCH_CHECK(h.dim() == 3 && h.size(0) == all && h.size(1) == rows[0], op, ": the first state has sizes ", h.sizes(),
              ", not [", all, ", ", rows[0], ", hidden]");
  if (lstm) {
    require_float(op, c);
    TORCH_CHECK(c.dim() == 3 && c.size(0) == all && c.size(1) == rows[0] && (projected || c.size(2) == h.size(2)), op,
                ": states of sizes ", h.sizes(), " and ", c.sizes());
  }
  const std::int64_t hidden = lstm ? c.size(2) : h.size(2), width = Direction(cell, {}, false).shape(hidden).width();
  const auto hs = h.unbind(0), cs = lstm ? c.unbind(0) : std::vector<Tensor>();
  std::vector<Tensor> last_h, last_c;
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    std::vector<Tensor> outputs;
    for (std::int64_t d = 0; d < directions; ++d) {
      const std::int64_t place = layer * directions + d;
      const TensorList own = params.slice(static_cast<std::size_t>(place * each), static_cast<std::size_t>(each));
      const CellWeights w{own[0], own[1], options.biases ? own[2] : Tensor(), options.biases ? own[3] : Tensor(),
                          projected ? own.back() : Tensor()};
      TORCH_CHECK(w.input.sizes() == at::IntArrayRef({width, x.size(1)}) &&
                      w.hidden.sizes() == at::IntArrayRef({width, h.size(2)}),
                  op, ": weights of sizes ", w.input.sizes(), " and ", w.hidden.sizes(), " do not fit an input of ",
                  x.size(1), " and a state of ", h.size(2));
      TORCH_CHECK(!projected || w.projection.sizes() == at::IntArrayRef({h.size(2), hidden}), op,
                  ": a projection of sizes ", w.projection.sizes(), " does not lead from ", hidden, " to ", h.size(2));
      TORCH_CHECK(!options.biases || (w.input_bias.numel() == width && w.hidden_bias.numel() == width), op,
                  ": biases of ", width, " values expected");
      const CellSequence result =
          run_direction(Direction(cell, rows, d == 1), x, {hs[place], lstm ? cs[place] : Tensor()}, w);
      outputs.push_back(result.y);
      last_h.push_back(result.last.h), last_c.push_back(result.last.c);
    }
    x = directions == 1 ? outputs[0] : at::cat(outputs, 1);
    if (options.dropout != 0 && options.train && layer + 1 < options.layers) x = at::dropout(x, options.dropout, true);
  }
  return {x, at::stack(last_h), lstm ? at::stack(last_c) : Tensor()};
}

Network run_input(const char* op, RecurrentCell cell, const Tensor& input, const Tensor& h, const Tensor& c,
                  TensorList params, const Options& options, bool batch_first) {
  TORCH_CHECK(input.dim() == 3, op, ": an input of three dimensions expected, got ", input.sizes());
  const Tensor x = batch_first ? input.transpose(0, 1) : input;
  const std::int64_t steps = x.size(0), batch = x.size(1);
  const Network result =
      run_network(op, cell, x.reshape({steps * batch, x.size(2)}),
                  std::vector<std::int64_t>(static_cast<std::size_t>(steps), batch), h, c, params, options);
  const Tensor y = result.y.view({steps, batch, result.y.size(1)});
  return {batch_first ? y.transpose(0, 1) : y, result.h, result.c};
}

Network run_packed(const char* op, RecurrentCell cell, const Tensor& data, const Tensor& batch_sizes, const Tensor& h,
                   const Tensor& c, TensorList params, const Options& options) {
  TORCH_CHECK(batch_sizes.is_cpu() && batch_sizes.scalar_type() == at::kLong && batch_sizes.dim() == 1, op,
              ": batch_sizes must be int64 on the CPU, of one dimension");
  const Tensor sizes = contiguous(batch_sizes);
  const std::int64_t* const values = sizes.const_data_ptr<std::int64_t>();
  const std::vector<std::int64_t> rows(values, values + sizes.numel());
  std::int64_t all = 0;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    TORCH_CHECK(rows[t] > 0 && (t == 0 || rows[t] <= rows[t - 1]), op,
                ": batch_sizes must be positive and not increase");
    all += rows[t];
  }
  TORCH_CHECK(data.dim() == 2 && data.size(0) == all, op, ": packed data of sizes ", data.sizes(), " for ", all,
              " rows");
  return run_network(op, cell, data, rows, h, c, params, options);
}

// ---- operators

using Three = std::tuple<Tensor, Tensor, Tensor>;
using Two = std::tuple<Tensor, Tensor>;

Three lstm_input(const Tensor& input, TensorList hx, TensorList params, bool biases, std::int64_t layers,
                 double dropout, bool train, bool bidirectional, bool batch_first) {
  TORCH_CHECK(hx.size() == 2, "aten::lstm: two states expected, got ", hx.size());
  Network n = run_input("aten::lstm", RecurrentCell::lstm, input, hx[0], hx[1], params,
                        {biases, layers, dropout, train, bidirectional}, batch_first);
  return {n.y, n.h, n.c};
}
Three lstm_data(const Tensor& data, const Tensor& batch_sizes, TensorList hx, TensorList params, bool biases,
                std::int64_t layers, double dropout, bool train, bool bidirectional) {
  TORCH_CHECK(hx.size() == 2, "aten::lstm: two states expected, got ", hx.size());
  Network n = run_packed("aten::lstm", RecurrentCell::lstm, data, batch_sizes, hx[0], hx[1], params,
                         {biases, layers, dropout, train, bidirectional});
  return {n.y, n.h, n.c};
}

template <RecurrentCell cell>
constexpr const char* kName = cell == RecurrentCell::gru        ? "aten::gru"
                              : cell == RecurrentCell::rnn_tanh ? "aten::rnn_tanh"
                                                                : "aten::rnn_relu";
template <RecurrentCell cell>
Two one_state_input(const Tensor& input, const Tensor& hx, TensorList params, bool biases, std::int64_t layers,
                    double dropout, bool train, bool bidirectional, bool batch_first) {
  Network n =
      run_input(kName<cell>, cell, input, hx, {}, params, {biases, layers, dropout, train, bidirectional}, batch_first);
  return {n.y, n.h};
}
template <RecurrentCell cell>
Two one_state_data(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList params, bool biases,
                   std::int64_t layers, double dropout, bool train, bool bidirectional) {
  Network n =
      run_packed(kName<cell>, cell, data, batch_sizes, hx, {}, params, {biases, layers, dropout, train, bidirectional});
  return {n.y, n.h};
}

}  // namespace

std::vector<Entry> recurrent_operators() {
  constexpr std::string_view steps = "11: the cells step by step; weight gradients added from the last step";
  constexpr DeviceRules packed{.host_tensors = true};
  constexpr auto gru = RecurrentCell::gru, rnn_tanh = RecurrentCell::rnn_tanh, rnn_relu = RecurrentCell::rnn_relu;
  return {
      certify_layer<lstm_input>("aten::lstm", "input", steps),
      certify_layer<lstm_data, packed>("aten::lstm", "data", steps),
      certify_layer<one_state_input<gru>>("aten::gru", "input", steps),
      certify_layer<one_state_data<gru>, packed>("aten::gru", "data", steps),
      certify_layer<one_state_input<rnn_tanh>>("aten::rnn_tanh", "input", steps),
      certify_layer<one_state_data<rnn_tanh>, packed>("aten::rnn_tanh", "data", steps),
      certify_layer<one_state_input<rnn_relu>>("aten::rnn_relu", "input", steps),
      certify_layer<one_state_data<rnn_relu>, packed>("aten::rnn_relu", "data", steps),
  };
}

}  // namespace isobit::aten
