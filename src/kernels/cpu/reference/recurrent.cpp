// Recurrent layers, step after step and row after row, as recurrent.h writes them.
#include "contract/recurrent.h"

#include <vector>

#include "contract/ordered_dot.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

using Floats = std::vector<float>;

// part[j] = the hidden state's part of gate element j of one row.
void hidden_part(const RecurrentForward& p, const float* hidden, Floats& part) {
  const std::int64_t h = p.shape.hidden;
  for (std::int64_t j = 0; j < p.shape.width(); ++j) {
    const float product = contract::ordered_dot(hidden, 1, p.weight + j * h, 1, h);
    part[static_cast<std::size_t>(j)] = p.bias != nullptr ? p.bias[j] + product : product;
  }
}

void step_of_row(const RecurrentForward& p, std::int64_t t, std::int64_t r) {
  const RecurrentShape& s = p.shape;
  const std::int64_t h = s.hidden, at = (s.first[t] + r) * h;
  float* const gates = p.gates + (s.first[t] + r) * s.width();
  float* const state = p.h + r * h;
  Floats part(static_cast<std::size_t>(s.width()));
  hidden_part(p, state, part);
  const auto hidden = [&](std::int64_t gate, std::int64_t u) { return part[static_cast<std::size_t>(gate * h + u)]; };
  for (std::int64_t u = 0; u < h; ++u) {
    float* const g = gates + u;
    switch (s.cell) {
      case RecurrentCell::lstm: {
        contract::LstmStep<float> step{
            hidden(0, u) + g[0], hidden(1, u) + g[h], hidden(2, u) + g[2 * h], hidden(3, u) + g[3 * h], 0, 0, 0};
        step = contract::lstm_step(step, p.c[r * h + u]);
        g[0] = step.i, g[h] = step.f, g[2 * h] = step.g, g[3 * h] = step.o;
        p.c[r * h + u] = step.c;
        if (p.cells) p.cells[at + u] = step.c;
        if (p.tanh_cells) p.tanh_cells[at + u] = step.tanh_c;
        p.y[at + u] = step.h;
        break;
      }
      case RecurrentCell::gru: {
        contract::GruStep<float> step{hidden(0, u) + g[0], hidden(1, u) + g[h], g[2 * h], hidden(2, u), 0};
        if (p.hidden_n) p.hidden_n[at + u] = step.hidden_n;
        step = contract::gru_step(step, state[u]);
        g[0] = step.r, g[h] = step.z, g[2 * h] = step.n;
        p.y[at + u] = step.h;
        break;
      }
      case RecurrentCell::rnn_tanh: p.y[at + u] = g[0] = contract::tanh(hidden(0, u) + g[0]); break;
      case RecurrentCell::rnn_relu: p.y[at + u] = g[0] = contract::relu(hidden(0, u) + g[0]); break;
    }
  }
  for (std::int64_t u = 0; u < h; ++u) state[u] = p.y[at + u];
}

void recurrent_steps(const RecurrentForward& p) {
  parallel_for(0, p.shape.batch(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t taken = 0; taken < p.shape.steps; ++taken) {
      const std::int64_t t = p.shape.time(taken);
      for (std::int64_t r = begin; r < end && r < p.shape.rows[t]; ++r) step_of_row(p, t, r);
    }
  });
}

// carried: LSTM dc, GRU what of dh did not pass the gates.
void backward_of_row(const RecurrentBackward& p, std::int64_t t, std::int64_t r, float* carried) {
  const RecurrentShape& s = p.shape;
  const std::int64_t h = s.hidden, width = s.width(), row = s.first[t] + r, at = row * h;
  const std::int64_t before = s.before(t, r), after = s.after(t, r);
  const bool gru = s.cell == RecurrentCell::gru, lstm = s.cell == RecurrentCell::lstm;
  const float* const next = after < 0 ? nullptr : (gru ? p.dhidden_gates : p.dgates) + (s.first[after] + r) * width;
  for (std::int64_t u = 0; u < h; ++u) {
    // Consumers of h, the last first: the stack of outputs, this cell's state in the next step, its product.
    bool any = p.dy != nullptr;
    float dh = any ? p.dy[at + u] : 0.0f;
    const auto add = [&](float x) { dh = any ? dh + x : x, any = true; };
    if (next == nullptr && p.dh != nullptr) add(p.dh[r * h + u]);
    if (next != nullptr && gru) add(carried[r * h + u]);
    if (next != nullptr) add(contract::ordered_dot(next, 1, p.weight + u, h, width));
    const float* const g = p.gates + row * width + u;
    float* const d = p.dgates + row * width + u;
    if (lstm) {
      const contract::LstmStep<float> step{g[0], g[h], g[2 * h], g[3 * h], 0, p.tanh_cells[at + u], 0};
      float dc = contract::lstm_cell_gradient(dh, step.o, step.tanh_c);
      if (next != nullptr) {
        dc = carried[r * h + u] + dc;
      } else if (p.dc != nullptr) {
        dc = p.dc[r * h + u] + dc;
      }
      const float cell = before < 0 ? p.c0[r * h + u] : p.cells[(s.first[before] + r) * h + u];
      const contract::LstmGradient<float> gradient = contract::lstm_backward(step, cell, dh, dc);
      d[0] = gradient.i, d[h] = gradient.f, d[2 * h] = gradient.g, d[3 * h] = gradient.o;
      carried[r * h + u] = gradient.cell;
    } else if (gru) {
      const contract::GruStep<float> step{g[0], g[h], g[2 * h], p.hidden_n[at + u], 0};
      const float hidden = before < 0 ? p.h0[r * h + u] : p.y[(s.first[before] + r) * h + u];
      const contract::GruGradient<float> gradient = contract::gru_backward(step, hidden, dh);
      float* const dhidden = p.dhidden_gates + row * width + u;
      d[0] = dhidden[0] = gradient.r, d[h] = dhidden[h] = gradient.z;
      d[2 * h] = gradient.n, dhidden[2 * h] = gradient.hidden_n;
      carried[r * h + u] = gradient.hidden;
    } else {
      d[0] = s.cell == RecurrentCell::rnn_tanh ? contract::tanh_backward(dh, g[0]) : contract::relu_backward(dh, g[0]);
    }
  }
}

void recurrent_steps_backward(const RecurrentBackward& p, float* carried) {
  parallel_for(0, p.shape.batch(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t taken = p.shape.steps - 1; taken >= 0; --taken) {
      const std::int64_t t = p.shape.time(taken);
      for (std::int64_t r = begin; r < end && r < p.shape.rows[t]; ++r) backward_of_row(p, t, r, carried);
    }
  });
}

void step_products(const RecurrentShape& s, std::int64_t m, std::int64_t n, const float* a, const float* b, float* c) {
  parallel_for(0, m * n, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e) {
      const std::int64_t i = e / n, j = e % n;
      float sum = 0.0f;  // no product is -0
      for (std::int64_t taken = s.steps - 1; taken >= 0; --taken) {
        const std::int64_t t = s.time(taken), first = s.first[t];
        sum = sum + contract::ordered_dot(a + first * m + i, m, b + first * n + j, n, s.rows[t]);
      }
      c[e] = sum;
    }
  });
}

}  // namespace

void fill_recurrent(HostTable& t) {
  t.recurrent_steps = recurrent_steps;
  t.recurrent_steps_backward = recurrent_steps_backward;
  t.step_products = step_products;
}

}  // namespace isobit::kernels::reference
