// LSTM, GRU, RNN and their cells: values and gradients, packed sequences, the bits of cells stepped by hand.
#include "operator_cases.h"

namespace isobit::test {
namespace {

enum class Kind { lstm, gru, rnn_tanh, rnn_relu };
constexpr Kind kKinds[] = {Kind::lstm, Kind::gru, Kind::rnn_tanh, Kind::rnn_relu};

std::int64_t gates_of(Kind kind) { return kind == Kind::lstm ? 4 : kind == Kind::gru ? 3 : 1; }

struct Net {
  Kind kind = Kind::lstm;
  std::int64_t input = 5, hidden = 7, layers = 1;
  bool bidirectional = false, biases = true, batch_first = false;
  double dropout = 0;
  std::int64_t projected = 0;  // 0: no projections
  [[nodiscard]] std::int64_t state() const { return projected != 0 ? projected : hidden; }
  [[nodiscard]] std::int64_t directions() const { return layers * (bidirectional ? 2 : 1); }
};

// input, h0, c0, weights of every layer and direction.
Tensors inputs_of(const Net& net, const Tensor& x, std::int64_t batch) {
  const Tensor h = at::randn({net.directions(), batch, net.state()}),
               c = at::randn({net.directions(), batch, net.hidden});
  Tensors all{x, h, c};
  for (std::int64_t d = 0; d < net.directions(); ++d) {
    const bool first = d < (net.bidirectional ? 2 : 1);
    const std::int64_t width = gates_of(net.kind) * net.hidden,
                       in = first ? net.input : net.state() * (net.bidirectional ? 2 : 1);
    all.push_back(at::randn({width, in}).mul(0.3));
    all.push_back(at::randn({width, net.state()}).mul(0.3));
    if (net.biases) all.push_back(at::randn({width})), all.push_back(at::randn({width}));
    if (net.projected != 0) all.push_back(at::randn({net.projected, net.hidden}).mul(0.3));
  }
  return all;
}

// Everything the operator gives, as one vector: outputs and last states.
Tensor run_net(const Net& net, const Tensors& t, const Tensor& batch_sizes = {}) {
  const Tensors params(t.begin() + 3, t.end());
  const auto join = [](const Tensors& parts) {
    Tensors flat;
    for (const Tensor& part : parts) flat.push_back(part.flatten());
    return at::cat(flat);
  };
  const bool packed = batch_sizes.defined();
  const auto both = [&](const auto& result) { return join({std::get<0>(result), std::get<1>(result)}); };
  if (net.kind == Kind::lstm) {
    const auto [y, h, c] = packed ? at::lstm(t[0], batch_sizes, {t[1], t[2]}, params, net.biases, net.layers,
                                             net.dropout, true, net.bidirectional)
                                  : at::lstm(t[0], {t[1], t[2]}, params, net.biases, net.layers, net.dropout, true,
                                             net.bidirectional, net.batch_first);
    return join({y, h, c});
  }
#define ISOBIT_CALL(name)                                                                                              \
  return both(                                                                                                         \
      packed ? at::name(t[0], batch_sizes, t[1], params, net.biases, net.layers, net.dropout, true, net.bidirectional) \
             : at::name(t[0], t[1], params, net.biases, net.layers, net.dropout, true, net.bidirectional,              \
                        net.batch_first))
  if (net.kind == Kind::gru) ISOBIT_CALL(gru);
  if (net.kind == Kind::rnn_tanh) ISOBIT_CALL(rnn_tanh);
  ISOBIT_CALL(rnn_relu);
#undef ISOBIT_CALL
}

Case case_of(const std::string& name, const Net& net, const Tensor& x, std::int64_t batch,
             const Tensor& batch_sizes = {}) {
  return {name, inputs_of(net, x, batch), [=](const Tensors& t) { return run_net(net, t, batch_sizes); }, 2e-5};
}

TEST(Recurrent, ValuesGradientsThreadsStridesAndStockBack) {
  at::manual_seed(200);
  for (const Kind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Case cases[] = {
        case_of("one layer", {.kind = kind}, at::randn({6, 3, 5}), 3),
        case_of("batch first, no biases", {.kind = kind, .biases = false, .batch_first = true}, at::randn({3, 6, 5}),
                3),
        case_of("two layers, both directions", {.kind = kind, .hidden = 33, .layers = 2, .bidirectional = true},
                at::randn({4, 17, 5}), 17),
        case_of("packed", {.kind = kind, .layers = 2, .bidirectional = true}, at::randn({9, 5}), 4,
                at::tensor(std::vector<std::int64_t>{4, 3, 1, 1})),
        case_of("one step of one", {.kind = kind}, at::randn({1, 1, 5}), 1),
        case_of("no sequences", {.kind = kind}, at::randn({2, 0, 5}), 0),
    };
    for (const Case& c : cases) check(c);
  }
}

TEST(Recurrent, ProjectionsGiveValuesGradientsThreadsAndStrides) {
  at::manual_seed(206);
  const Tensor batch_sizes = at::tensor(std::vector<std::int64_t>{4, 3, 1, 1});
  const Case cases[] = {
      case_of("one layer", {.projected = 3}, at::randn({6, 3, 5}), 3),
      case_of("batch first, no biases", {.biases = false, .batch_first = true, .projected = 1}, at::randn({3, 6, 5}),
              3),
      case_of("two layers, both directions", {.hidden = 33, .layers = 2, .bidirectional = true, .projected = 17},
              at::randn({4, 17, 5}), 17),
      case_of("packed", {.layers = 2, .bidirectional = true, .projected = 4}, at::randn({9, 5}), 4, batch_sizes),
      case_of("no sequences", {.projected = 3}, at::randn({2, 0, 5}), 0),
  };
  for (const Case& c : cases) check(c);
}

Tensor cell(Kind kind, const Tensor& x, const Tensor& h, Tensor& c, const Tensors& w) {
  switch (kind) {
    case Kind::lstm: {
      const auto [next_h, next_c] = at::lstm_cell(x, {h, c}, w[0], w[1], w[2], w[3]);
      c = next_c;
      return next_h;
    }
    case Kind::gru: return at::gru_cell(x, h, w[0], w[1], w[2], w[3]);
    case Kind::rnn_tanh: return at::rnn_tanh_cell(x, h, w[0], w[1], w[2], w[3]);
    case Kind::rnn_relu: return at::rnn_relu_cell(x, h, w[0], w[1], w[2], w[3]);
  }
  return {};
}

// Cells stepped as a user would: one call a step, outputs stacked.
TEST(Recurrent, LayersHaveTheBitsOfCellsSteppedByHand) {
  at::manual_seed(201);
  for (const Kind kind : kKinds) {
    for (const std::int64_t hidden : {7, 150}) {  // 150: the gates' gradients need a tree
      SCOPED_TRACE(static_cast<int>(kind));
      const Net net{.kind = kind, .hidden = hidden};
      const Tensors inputs = inputs_of(net, at::randn({9, 6, 5}), 6);
      const Case whole{"", inputs, [&](const Tensors& t) { return run_net(net, t); }};
      const Case by_hand{"", inputs, [&](const Tensors& t) {
                           const Tensors w(t.begin() + 3, t.end());
                           Tensor h = t[1][0], c = t[2][0];
                           Tensors outputs;
                           for (const Tensor& x : t[0].unbind(0)) outputs.push_back(h = cell(kind, x, h, c, w));
                           Tensors parts{at::stack(outputs).flatten(), h.flatten()};
                           if (kind == Kind::lstm) parts.push_back(c.flatten());
                           return at::cat(parts);
                         }};
      const aten::OperatorSwitch on;
      const Tensors expected = evaluate(by_hand, inputs, at::kFloat);
      EXPECT_TRUE(same_bits(evaluate(whole, inputs, at::kFloat), expected));
      EXPECT_EQ(expected.size(), inputs.size() - (kind == Kind::lstm ? 0 : 1) + 1);
    }
  }
}

// Of each direction: lstm_cell, then a product without a bias. Layers and directions are joined as nn.LSTM does.
TEST(Recurrent, ProjectedLayersHaveTheBitsOfCellsAndProducts) {
  at::manual_seed(207);
  for (const Net& net : {Net{.projected = 3}, Net{.hidden = 150, .layers = 2, .bidirectional = true, .projected = 33},
                         Net{.layers = 2, .biases = false, .projected = 6}}) {
    const Tensors inputs = inputs_of(net, at::randn({5, 6, 5}), 6);
    const Case whole{"", inputs, [&](const Tensors& t) { return run_net(net, t); }};
    const Case by_hand{
        "", inputs, [&](const Tensors& t) {
          const std::int64_t each = net.biases ? 5 : 3, directions = net.bidirectional ? 2 : 1;
          Tensor x = t[0];
          Tensors last_h, last_c;
          for (std::int64_t place = 0; place < net.directions(); place += directions) {
            Tensors sides;
            for (std::int64_t d = 0; d < directions; ++d) {
              const auto w = t.begin() + 3 + (place + d) * each;
              const auto bias = [&](int i) {
                return net.biases ? std::optional<Tensor>(w[i]) : std::optional<Tensor>();
              };
              Tensor h = t[1][place + d], c = t[2][place + d];
              Tensors steps = x.unbind(0), outputs(steps.size());
              for (std::size_t taken = 0; taken < steps.size(); ++taken) {
                const std::size_t time = d == 1 ? steps.size() - 1 - taken : taken;
                const auto [whole_h, next_c] = at::lstm_cell(steps[time], {h, c}, w[0], w[1], bias(2), bias(3));
                outputs[time] = h = at::linear(whole_h, w[each - 1]);
                c = next_c;
              }
              sides.push_back(at::stack(outputs)), last_h.push_back(h), last_c.push_back(c);
            }
            x = at::cat(sides, 2);
          }
          return at::cat({x.flatten(), at::stack(last_h).flatten(), at::stack(last_c).flatten()});
        }};
    const aten::OperatorSwitch on;
    const Tensors expected = evaluate(by_hand, inputs, at::kFloat);
    EXPECT_EQ(expected.size(), inputs.size() + 1);
    EXPECT_TRUE(same_bits(evaluate(whole, inputs, at::kFloat), expected));
  }
}

TEST(Recurrent, APackedSequenceHasTheBitsItHasAlone) {
  at::manual_seed(202);
  const Net net{.kind = Kind::gru, .bidirectional = true};
  const Tensors inputs = inputs_of(net, at::randn({9, 5}), 4);  // lengths 4, 2, 2, 1
  const aten::OperatorSwitch on;
  const Tensor together = run_net(net, inputs, at::tensor(std::vector<std::int64_t>{4, 3, 1, 1}));
  Tensors alone = inputs;
  alone[0] = at::stack({inputs[0][1], inputs[0][5]}).unsqueeze(1);
  alone[1] = inputs[1].narrow(1, 1, 1);
  const Tensor y = run_net(net, alone).narrow(0, 0, 28).view({2, 14});
  EXPECT_TRUE(same_bits(y[0], together.narrow(0, 0, 126).view({9, 14})[1]));
  EXPECT_TRUE(same_bits(y[1], together.narrow(0, 0, 126).view({9, 14})[5]));
}

TEST(Recurrent, DropoutStandsBetweenTheLayers) {
  at::manual_seed(203);
  const Net net{.layers = 3, .dropout = 0.4};
  const Tensors t = inputs_of(net, at::randn({5, 4, 5}), 4);
  const aten::OperatorSwitch on;
  at::manual_seed(7);
  const Tensor whole = run_net(net, t).narrow(0, 0, 5 * 4 * 7);
  at::manual_seed(7);
  Tensor x = t[0];
  for (std::int64_t layer = 0; layer < 3; ++layer) {
    const Tensors w(t.begin() + 3 + 4 * layer, t.begin() + 7 + 4 * layer);
    x = std::get<0>(
        at::lstm(x, {t[1].narrow(0, layer, 1), t[2].narrow(0, layer, 1)}, w, true, 1, 0.0, true, false, false));
    if (layer < 2) x = at::dropout(x, 0.4, true);
  }
  EXPECT_TRUE(same_bits(whole, x.flatten()));
}

TEST(Recurrent, InferenceHasTheBitsOfTraining) {
  at::manual_seed(204);
  const Net net{.layers = 2, .bidirectional = true};
  Tensors t = inputs_of(net, at::randn({5, 4, 5}), 4);
  const aten::OperatorSwitch on;
  const Tensor plain = run_net(net, t);
  for (Tensor& x : t) x.requires_grad_();
  const Tensor training = run_net(net, t);
  EXPECT_TRUE(training.requires_grad());
  EXPECT_TRUE(same_bits(plain, training));
  const c10::InferenceMode inference;
  EXPECT_TRUE(same_bits(run_net(net, t), training));
}

TEST(Recurrent, Refuses) {
  at::manual_seed(205);
  const Net net;
  Tensors t = inputs_of(net, at::randn({3, 2, 5}), 2);
  const aten::OperatorSwitch on;
  Tensors projected = t;
  projected.push_back(at::ones({3, 7}));  // h has 7, not 3
  expect_throws([&] { run_net(net, projected); }, "projection");
  projected.push_back(at::ones({3, 7}));
  expect_throws([&] { run_net(net, projected); }, "weight tensors expected");
  Tensors wide = t;
  wide[0] = t[0].to(at::kDouble);
  expect_throws([&] { run_net(net, wide); }, "Double");
  wide = t;
  wide[1] = at::zeros({1, 3, 7});
  expect_throws([&] { run_net(net, wide); }, "first state");
  wide = t;
  wide[0] = at::zeros({0, 2, 5});
  expect_throws([&] { run_net(net, wide); }, "at least one step");
  for (Tensor& x : t) x.requires_grad_();
  expect_throws([&] { run_net(net, t).sum().backward({}, std::nullopt, /*create_graph=*/true); }, "second derivatives");
}

}  // namespace
}  // namespace isobit::test
