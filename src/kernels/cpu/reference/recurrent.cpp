// Recurrent layers, step after step and row after row, as recurrent.h writes them.
//
// Each dot product is the contract's sentence over a panel of outputs (dot_panel.h), the weight packed once for the
// sequence; the cells' formulas are written once and compiled a second time for processors with fma: libm's function,
// which baseline x86-64 calls for each, takes most of a step.
#include "contract/recurrent.h"

#include <algorithm>
#include <vector>

#include "contract/ordered_dot.h"
#include "kernels/cpu/reference/dot_panel.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

using Floats = std::vector<float>;

std::int64_t column_panels(std::int64_t columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

// [panel][term][kPanelColumns]: element (k, j) of a product's right side; columns past the last are 0 and looked at by
// nobody.
template <class Element>
Floats packed_columns(std::int64_t terms, std::int64_t columns, Element element) {
  Floats packed(static_cast<std::size_t>(column_panels(columns) * terms * kPanelColumns));
  for (std::int64_t j = 0; j < columns; ++j) {
    float* const column = packed.data() + j / kPanelColumns * terms * kPanelColumns + j % kPanelColumns;
    for (std::int64_t k = 0; k < terms; ++k) column[k * kPanelColumns] = element(k, j);
  }
  return packed;
}

// packed[k][r] = rows[r][k], rows of `terms` numbers one after another.
void pack_rows(const float* rows, std::int64_t count, std::int64_t terms, float* packed) {
  for (std::int64_t k = 0; k < terms; ++k)
    for (std::int64_t r = 0; r < count; ++r) packed[k * kPanelRows + r] = rows[r * terms + k];
}

// out[r][kPanelColumns], for r < rows: the ordered dot products of packed rows and one panel of packed columns.
void panel_dots(const float* rows, std::int64_t count, const float* columns, std::int64_t terms, float* out) {
  const std::int64_t size = count * kPanelColumns;
  PanelTree<float> tree(size);
  for (std::int64_t begin = 0; begin < terms; begin += contract::kLeaf) {
    std::fill(out, out + size, 0.0f);
    add_outer_products(out, rows + begin * kPanelRows, count, columns + begin * kPanelColumns,
                       std::min(contract::kLeaf, terms - begin));
    if (terms > contract::kLeaf) tree.add(out);
  }
  if (terms > contract::kLeaf || terms == 0) return tree.result(out);
  for (std::int64_t i = 0; i < size; ++i) out[i] = out[i] + 0.0f;  // a tree of one leaf
}

// A row's gates and state of one step; part: the hidden state's part of its gates.
__attribute__((always_inline)) inline void step_of_row(const RecurrentForward& p, std::int64_t t, std::int64_t r,
                                                       const float* part) {
  const RecurrentShape& s = p.shape;
  const std::int64_t h = s.hidden, at = (s.first[t] + r) * h;
  float* const gates = p.gates + (s.first[t] + r) * s.width();
  float* const state = p.h + r * h;
  for (std::int64_t u = 0; u < h; ++u) {
    float* const g = gates + u;
    const float* const hidden = part + u;
    switch (s.cell) {
      case RecurrentCell::lstm: {
        contract::LstmStep<float> step{
            hidden[0] + g[0], hidden[h] + g[h], hidden[2 * h] + g[2 * h], hidden[3 * h] + g[3 * h], 0, 0, 0};
        step = contract::lstm_step(step, p.c[r * h + u]);
        g[0] = step.i, g[h] = step.f, g[2 * h] = step.g, g[3 * h] = step.o;
        p.c[r * h + u] = step.c;
        if (p.cells) p.cells[at + u] = step.c;
        if (p.tanh_cells) p.tanh_cells[at + u] = step.tanh_c;
        p.y[at + u] = step.h;
        break;
      }
      case RecurrentCell::gru: {
        contract::GruStep<float> step{hidden[0] + g[0], hidden[h] + g[h], g[2 * h], hidden[2 * h], 0};
        if (p.hidden_n) p.hidden_n[at + u] = step.hidden_n;
        step = contract::gru_step(step, state[u]);
        g[0] = step.r, g[h] = step.z, g[2 * h] = step.n;
        p.y[at + u] = step.h;
        break;
      }
      case RecurrentCell::rnn_tanh: p.y[at + u] = g[0] = contract::tanh(hidden[0] + g[0]); break;
      case RecurrentCell::rnn_relu: p.y[at + u] = g[0] = contract::relu(hidden[0] + g[0]); break;
    }
  }
  for (std::int64_t u = 0; u < h; ++u) state[u] = p.y[at + u];
}

using StepOfRow = void (*)(const RecurrentForward&, std::int64_t, std::int64_t, const float*);
void plain_step(const RecurrentForward& p, std::int64_t t, std::int64_t r, const float* part) {
  step_of_row(p, t, r, part);
}
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void step_with_fma(const RecurrentForward& p, std::int64_t t, std::int64_t r,
                                                       const float* part) {
  step_of_row(p, t, r, part);
}
StepOfRow choose_step() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? step_with_fma : plain_step;
}
#else
StepOfRow choose_step() { return plain_step; }
#endif

// Rows [first, first + count) of a step, count <= kPanelRows.
class StepOfRows {
 public:
  StepOfRows(const RecurrentForward& p, const Floats& weight)
      : p_(p),
        weight_(weight),
        rows_(static_cast<std::size_t>(p.shape.hidden * kPanelRows)),
        dots_(kPanelRows * kPanelColumns),
        part_(static_cast<std::size_t>(kPanelRows * p.shape.width())) {}

  void take(std::int64_t t, std::int64_t first, std::int64_t count) {
    static const StepOfRow step = choose_step();
    const std::int64_t h = p_.shape.hidden, width = p_.shape.width();
    pack_rows(p_.h + first * h, count, h, rows_.data());
    for (std::int64_t j0 = 0; j0 < width; j0 += kPanelColumns) {
      panel_dots(rows_.data(), count, weight_.data() + j0 * h, h, dots_.data());
      const std::int64_t columns = std::min(kPanelColumns, width - j0);
      for (std::int64_t r = 0; r < count; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const float product = dots_[static_cast<std::size_t>(r * kPanelColumns + c)];
          part_[static_cast<std::size_t>(r * width + j0 + c)] =
              p_.bias != nullptr ? p_.bias[j0 + c] + product : product;
        }
      }
    }
    for (std::int64_t r = 0; r < count; ++r) step(p_, t, first + r, part_.data() + r * width);
  }

 private:
  const RecurrentForward& p_;
  const Floats& weight_;
  Floats rows_, dots_, part_;
};

void recurrent_steps(const RecurrentForward& p) {
  const std::int64_t h = p.shape.hidden;
  const Floats weight = packed_columns(h, p.shape.width(), [&](auto k, auto j) { return p.weight[j * h + k]; });
  parallel_for(0, p.shape.batch(), 1, [&](std::int64_t begin, std::int64_t end) {
    StepOfRows rows(p, weight);
    for (std::int64_t taken = 0; taken < p.shape.steps; ++taken) {
      const std::int64_t t = p.shape.time(taken), last = std::min(end, p.shape.rows[t]);
      for (std::int64_t r = begin; r < last; r += kPanelRows) rows.take(t, r, std::min(kPanelRows, last - r));
    }
  });
}

// carried: LSTM dc, GRU what of dh did not pass the gates. product: what comes through the next step's product, if
// there is one.
void backward_of_row(const RecurrentBackward& p, std::int64_t t, std::int64_t r, const float* product, float* carried) {
  const RecurrentShape& s = p.shape;
  const std::int64_t h = s.hidden, width = s.width(), row = s.first[t] + r, at = row * h;
  const std::int64_t before = s.before(t, r), after = s.after(t, r);
  const bool gru = s.cell == RecurrentCell::gru, lstm = s.cell == RecurrentCell::lstm;
  const bool next = after >= 0;
  for (std::int64_t u = 0; u < h; ++u) {
    // Consumers of h, the last first: the stack of outputs, this cell's state in the next step, its product.
    bool any = p.dy != nullptr;
    float dh = any ? p.dy[at + u] : 0.0f;
    const auto add = [&](float x) { dh = any ? dh + x : x, any = true; };
    if (!next && p.dh != nullptr) add(p.dh[r * h + u]);
    if (next && gru) add(carried[r * h + u]);
    if (next) add(product[u]);
    const float* const g = p.gates + row * width + u;
    float* const d = p.dgates + row * width + u;
    if (lstm) {
      const contract::LstmStep<float> step{g[0], g[h], g[2 * h], g[3 * h], 0, p.tanh_cells[at + u], 0};
      float dc = contract::lstm_cell_gradient(dh, step.o, step.tanh_c);
      if (next) {
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

// Rows [first, first + count) of a step, count <= kPanelRows: of them the first ones have a next step.
class BackwardOfRows {
 public:
  BackwardOfRows(const RecurrentBackward& p, const Floats& weight)
      : p_(p),
        weight_(weight),
        rows_(static_cast<std::size_t>(p.shape.width() * kPanelRows)),
        dots_(kPanelRows * kPanelColumns),
        product_(static_cast<std::size_t>(kPanelRows * p.shape.hidden)) {}

  void take(std::int64_t t, std::int64_t first, std::int64_t count, float* carried) {
    const RecurrentShape& s = p_.shape;
    const std::int64_t h = s.hidden, after = s.after(t, first);
    if (after >= 0) multiply(after, first, std::min(count, s.rows[after] - first));
    for (std::int64_t r = 0; r < count; ++r) backward_of_row(p_, t, first + r, product_.data() + r * h, carried);
  }

 private:
  // The gates' gradients of the step after times the weight.
  void multiply(std::int64_t after, std::int64_t first, std::int64_t count) {
    const RecurrentShape& s = p_.shape;
    const std::int64_t h = s.hidden, width = s.width();
    const float* const gradients = s.cell == RecurrentCell::gru ? p_.dhidden_gates : p_.dgates;
    pack_rows(gradients + (s.first[after] + first) * width, count, width, rows_.data());
    for (std::int64_t u0 = 0; u0 < h; u0 += kPanelColumns) {
      panel_dots(rows_.data(), count, weight_.data() + u0 * width, width, dots_.data());
      const std::int64_t columns = std::min(kPanelColumns, h - u0);
      for (std::int64_t r = 0; r < count; ++r)
        std::copy_n(dots_.data() + r * kPanelColumns, columns, product_.data() + r * h + u0);
    }
  }

  const RecurrentBackward& p_;
  const Floats& weight_;
  Floats rows_, dots_, product_;
};

void recurrent_steps_backward(const RecurrentBackward& p, float* carried) {
  const std::int64_t h = p.shape.hidden;
  const Floats weight = packed_columns(p.shape.width(), h, [&](auto k, auto u) { return p.weight[k * h + u]; });
  parallel_for(0, p.shape.batch(), 1, [&](std::int64_t begin, std::int64_t end) {
    BackwardOfRows rows(p, weight);
    for (std::int64_t taken = p.shape.steps - 1; taken >= 0; --taken) {
      const std::int64_t t = p.shape.time(taken), last = std::min(end, p.shape.rows[t]);
      for (std::int64_t r = begin; r < last; r += kPanelRows) rows.take(t, r, std::min(kPanelRows, last - r), carried);
    }
  });
}

// A panel of outputs: rows [i0, i0 + rows) and columns [j0, j0 + columns) of the sum over the steps.
void step_products_panel(const RecurrentShape& s, std::int64_t m, std::int64_t n, const float* a, const float* b,
                         std::int64_t i0, std::int64_t j0, float* c) {
  const std::int64_t rows = std::min(kPanelRows, m - i0), columns = std::min(kPanelColumns, n - j0);
  const auto most = static_cast<std::size_t>(s.batch());
  Floats row(most * kPanelRows), column(most * kPanelColumns), product(kPanelRows * kPanelColumns), sum(product.size());
  for (std::int64_t taken = s.steps - 1; taken >= 0; --taken) {
    const std::int64_t t = s.time(taken), first = s.first[t];
    for (std::int64_t k = 0; k < s.rows[t]; ++k) {
      std::copy_n(a + (first + k) * m + i0, rows, row.data() + k * kPanelRows);
      std::copy_n(b + (first + k) * n + j0, columns, column.data() + k * kPanelColumns);
    }
    if (s.rows[t] <= contract::kLeaf) {  // the sum is never -0, so a product of -0 need not become +0 first
      add_chains(sum.data(), row.data(), rows, column.data(), s.rows[t]);
      continue;
    }
    panel_dots(row.data(), rows, column.data(), s.rows[t], product.data());
    for (std::int64_t i = 0; i < rows * kPanelColumns; ++i) sum[i] = sum[i] + product[i];
  }
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(sum.data() + r * kPanelColumns, columns, c + (i0 + r) * n + j0);
}

void step_products(const RecurrentShape& s, std::int64_t m, std::int64_t n, const float* a, const float* b, float* c) {
  const std::int64_t across = column_panels(n), down = (m + kPanelRows - 1) / kPanelRows;
  parallel_for(0, down * across, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel)
      step_products_panel(s, m, n, a, b, panel / across * kPanelRows, panel % across * kPanelColumns, c);
  });
}

}  // namespace

void fill_recurrent(HostTable& t) {
  t.recurrent_steps = recurrent_steps;
  t.recurrent_steps_backward = recurrent_steps_backward;
  t.step_products = step_products;
}

}  // namespace isobit::kernels::reference
