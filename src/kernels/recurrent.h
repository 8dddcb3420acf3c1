// Recurrent layers, one layer in one direction: LSTM, GRU, RNN with tanh or relu (contract, section 11).
//
// Step t has rows[t] sequences, as many or fewer than the step before; its rows lie one after another, those of all
// steps consecutive: [first[steps], width] (a packed sequence; a plain one has the same rows in every step). Gates in
// PyTorch's order: LSTM i f g o, GRU r z n. With `reverse` steps are taken from the last to the first.
// Results have the bits of PyTorch's cells stepped by hand, outputs stacked at the end. On the host only: throws
// DeviceError within a DeviceScope. Thread-safe; uses the pool.
#pragma once

#include <cstdint>

namespace isobit::kernels {

enum class RecurrentCell { lstm, gru, rnn_tanh, rnn_relu };

struct RecurrentShape {
  RecurrentCell cell = RecurrentCell::lstm;
  std::int64_t steps = 0, hidden = 0;
  const std::int64_t* rows = nullptr;   // [steps], positive, not increasing
  const std::int64_t* first = nullptr;  // [steps + 1]: first[t] rows lie before step t's
  bool reverse = false;

  [[nodiscard]] std::int64_t gates() const {
    return cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
  }
  [[nodiscard]] std::int64_t width() const { return gates() * hidden; }
  [[nodiscard]] std::int64_t batch() const { return steps == 0 ? 0 : rows[0]; }
  [[nodiscard]] std::int64_t time(std::int64_t taken) const { return reverse ? steps - 1 - taken : taken; }
  // Row r's steps: which it takes before step t and after it; -1: none.
  [[nodiscard]] std::int64_t before(std::int64_t t, std::int64_t r) const {
    if (!reverse) return t - 1;
    return t + 1 < steps && r < rows[t + 1] ? t + 1 : -1;
  }
  [[nodiscard]] std::int64_t after(std::int64_t t, std::int64_t r) const {
    if (reverse) return t - 1;
    return t + 1 < steps && r < rows[t + 1] ? t + 1 : -1;
  }
};

struct RecurrentForward {
  RecurrentShape shape;
  const float* weight = nullptr;  // of the hidden state [width, hidden]
  const float* bias = nullptr;    // [width]; nullptr: none
  float* gates = nullptr;         // [all rows, width]: the inputs' part, overwritten with the gates' values
  float* h = nullptr;             // [batch, hidden]: the state, from the first to the last of every sequence
  float* c = nullptr;             // LSTM: the same
  float* y = nullptr;             // [all rows, hidden]
  // What backward needs; nullptr where there will be none. LSTM: cells c and tanh(c); GRU: the hidden state's part of
  // n, before it is multiplied by r. [all rows, hidden]
  float* cells = nullptr;
  float* tanh_cells = nullptr;
  float* hidden_n = nullptr;
};
void recurrent_forward(const RecurrentForward& problem);

struct RecurrentBackward {
  RecurrentShape shape;
  const float* weight = nullptr;
  const float *gates = nullptr, *y = nullptr, *cells = nullptr, *tanh_cells = nullptr, *hidden_n = nullptr;
  const float *h0 = nullptr, *c0 = nullptr;  // [batch, hidden]
  // Gradients of y, of the last h and c of every sequence; nullptr: none.
  const float *dy = nullptr, *dh = nullptr, *dc = nullptr;
  float* dgates = nullptr;               // [all rows, width]: of the inputs' part, before the gates' functions
  float* dhidden_gates = nullptr;        // GRU: the same of the hidden state's part; others: it is dgates
  float *dh0 = nullptr, *dc0 = nullptr;  // dh0 may be nullptr: not asked
  float* dbias = nullptr;                // [width], of the hidden state's bias; nullptr: not asked
  float* dweight = nullptr;              // [width, hidden]; nullptr: not asked
};
void recurrent_backward(const RecurrentBackward& problem);

// Sums over the steps as autograd adds them, from the step that was taken last to the first: of the steps' products
// a^T b [m, n], a [all rows, m], b [all rows, n]; and of the steps' column sums of a.
void step_products(const RecurrentShape& shape, std::int64_t m, std::int64_t n, const float* a, const float* b,
                   float* c);
void step_sums(const RecurrentShape& shape, std::int64_t m, const float* a, float* sums);

}  // namespace isobit::kernels
