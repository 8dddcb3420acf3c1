// The cells of recurrent layers and their gradients, one written formula each (contract, section 11).
//
// PyTorch's cells operation by operation; gradients as autograd composes them. Every operation is one IEEE operation in
// the order written here. Host and device; no state.
#pragma once

#include "contract/pointwise.h"

ISOBIT_CONTRACT_BEGIN

template <class Lane>
struct LstmStep {
  Lane i, f, g, o;  // in: their arguments; after lstm_step: their values
  Lane c, tanh_c, h;
};
// Of the gates' values. cell: the state before.
template <class Lane>
ISOBIT_FORMULA Lane lstm_cell(Lane i, Lane f, Lane g, Lane cell) {
  return f * cell + i * g;
}
template <class Lane>
ISOBIT_FORMULA LstmStep<Lane> lstm_state(LstmStep<Lane> s, Lane cell) {
  s.c = lstm_cell(s.i, s.f, s.g, cell);
  s.tanh_c = tanh(s.c);
  s.h = s.o * s.tanh_c;
  return s;
}
template <class Lane>
[[nodiscard]] ISOBIT_HOST_DEVICE inline __attribute__((always_inline)) LstmStep<Lane> lstm_step(LstmStep<Lane> s,
                                                                                                Lane cell) {
  s.i = sigmoid(s.i), s.f = sigmoid(s.f), s.g = tanh(s.g), s.o = sigmoid(s.o);
  return lstm_state(s, cell);
}

template <class Lane>
struct LstmGradient {
  Lane i, f, g, o, cell;  // of the gates' arguments and of the state before
};
// What of dc comes through h: to be added to what the next step and the caller give.
template <class Lane>
ISOBIT_FORMULA Lane lstm_cell_gradient(Lane dh, Lane o, Lane tanh_c) {
  return tanh_backward(dh * o, tanh_c);
}
template <class Lane>
[[nodiscard]] ISOBIT_HOST_DEVICE inline __attribute__((always_inline)) LstmGradient<Lane> lstm_backward(
    const LstmStep<Lane>& s, Lane cell, Lane dh, Lane dc) {
  LstmGradient<Lane> d;
  d.i = sigmoid_backward(dc * s.g, s.i);
  d.f = sigmoid_backward(dc * cell, s.f);
  d.g = tanh_backward(dc * s.i, s.g);
  d.o = sigmoid_backward(dh * s.tanh_c, s.o);
  d.cell = dc * s.f;
  return d;
}

template <class Lane>
struct GruStep {
  Lane r, z, n;   // in: r and z their arguments, n the inputs' part of its own; after gru_step: their values
  Lane hidden_n;  // the hidden state's part of n
  Lane h;
};
template <class Lane>
[[nodiscard]] ISOBIT_HOST_DEVICE inline __attribute__((always_inline)) GruStep<Lane> gru_step(GruStep<Lane> s,
                                                                                              Lane hidden) {
  s.r = sigmoid(s.r), s.z = sigmoid(s.z);
  s.n = tanh(s.n + s.hidden_n * s.r);
  s.h = (hidden - s.n) * s.z + s.n;
  return s;
}

template <class Lane>
struct GruGradient {
  Lane r, z, n, hidden_n;
  Lane hidden;  // of the state before, without what passes the gates
};
template <class Lane>
[[nodiscard]] ISOBIT_HOST_DEVICE inline __attribute__((always_inline)) GruGradient<Lane> gru_backward(
    const GruStep<Lane>& s, Lane hidden, Lane dh) {
  GruGradient<Lane> d;
  d.hidden = dh * s.z;
  d.n = tanh_backward(dh - d.hidden, s.n);
  d.hidden_n = d.n * s.r;
  d.r = sigmoid_backward(d.n * s.hidden_n, s.r);
  d.z = sigmoid_backward(dh * (hidden - s.n), s.z);
  return d;
}

ISOBIT_CONTRACT_END
