// Recurrent layers: every implementation's bits, binary64 within a bound, a wrong order of steps seen.
#include "kernels/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/sweep.h"

namespace isobit::kernels {
namespace {

using namespace isobit::kernels::testing;
using Floats = std::vector<float>;

constexpr RecurrentCell kCells[] = {RecurrentCell::lstm, RecurrentCell::gru, RecurrentCell::rnn_tanh,
                                    RecurrentCell::rnn_relu};

struct Problem {
  RecurrentCell cell;
  std::int64_t hidden;
  std::vector<std::int64_t> rows, first;
  bool reverse, bias, last;  // last: the last states have gradients
  Floats weight, b, x, h0, c0, dy, dh, dc;

  [[nodiscard]] RecurrentShape shape() const {
    return {cell, static_cast<std::int64_t>(rows.size()), hidden, rows.data(), first.data(), reverse};
  }
  [[nodiscard]] std::string text() const {
    std::string text =
        "cell " + std::to_string(static_cast<int>(cell)) + ", hidden " + std::to_string(hidden) + ", rows";
    for (const std::int64_t count : rows) text += " " + std::to_string(count);
    return text + (reverse ? ", reverse" : "");
  }
};

Problem problem(RecurrentCell cell, std::int64_t hidden, std::vector<std::int64_t> rows, unsigned seed,
                bool hostile = false) {
  Problem p{cell, hidden, std::move(rows), {0}, seed % 2 == 0, seed % 3 != 0, seed % 4 < 2, {}, {}, {}, {}, {}, {},
            {},   {}};
  for (const std::int64_t count : p.rows) p.first.push_back(p.first.back() + count);
  const std::int64_t width = p.shape().width(), batch = p.shape().batch(), all = p.first.back();
  const auto values = [&](std::int64_t n, float scale) {
    ++seed;
    Floats made = hostile ? hostile_floats(n, seed, seed % 3 == 0) : normal_floats(n, seed);
    for (float& value : made) value *= scale;
    return made;
  };
  const float scale = hostile ? 1.0f : 1.0f / std::sqrt(static_cast<float>(hidden));
  p.weight = values(width * hidden, scale), p.b = values(width, scale), p.x = values(all * width, 1.0f);
  p.h0 = values(batch * hidden, 0.5f), p.c0 = values(batch * hidden, 0.5f);
  p.dy = values(all * hidden, 1.0f), p.dh = values(batch * hidden, 1.0f), p.dc = values(batch * hidden, 1.0f);
  return p;
}

struct Results {
  Floats y, h, c, dgates, dhidden, dh0, dc0, dbias, dweight;
  [[nodiscard]] Floats joined() const {
    Floats all;
    for (const Floats* part : {&y, &h, &c, &dgates, &dhidden, &dh0, &dc0, &dbias, &dweight}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
};

Results run(const Problem& p) {
  const RecurrentShape shape = p.shape();
  const auto state = static_cast<std::size_t>(shape.batch() * p.hidden),
             all = static_cast<std::size_t>(p.first.back() * p.hidden);
  const auto width = static_cast<std::size_t>(shape.width());
  const bool lstm = p.cell == RecurrentCell::lstm, gru = p.cell == RecurrentCell::gru;
  Floats gates = p.x, cells(all), tanh_cells(all), hidden_n(all);
  Results r{Floats(all, 7),
            p.h0,
            lstm ? p.c0 : Floats(),
            Floats(gates.size(), 7),
            Floats(gru ? gates.size() : 0, 7),
            Floats(state, 7),
            Floats(lstm ? state : 0, 7),
            Floats(width, 7),
            Floats(p.weight.size(), 7)};
  recurrent_forward({.shape = shape,
                     .weight = p.weight.data(),
                     .bias = p.bias ? p.b.data() : nullptr,
                     .gates = gates.data(),
                     .h = r.h.data(),
                     .c = r.c.data(),
                     .y = r.y.data(),
                     .cells = lstm ? cells.data() : nullptr,
                     .tanh_cells = lstm ? tanh_cells.data() : nullptr,
                     .hidden_n = gru ? hidden_n.data() : nullptr});
  recurrent_backward({.shape = shape,
                      .weight = p.weight.data(),
                      .gates = gates.data(),
                      .y = r.y.data(),
                      .cells = cells.data(),
                      .tanh_cells = tanh_cells.data(),
                      .hidden_n = hidden_n.data(),
                      .h0 = p.h0.data(),
                      .c0 = p.c0.data(),
                      .dy = p.dy.data(),
                      .dh = p.last ? p.dh.data() : nullptr,
                      .dc = p.last ? p.dc.data() : nullptr,
                      .dgates = r.dgates.data(),
                      .dhidden_gates = r.dhidden.data(),
                      .dh0 = r.dh0.data(),
                      .dc0 = r.dc0.data(),
                      .dbias = r.dbias.data(),
                      .dweight = r.dweight.data()});
  return r;
}

void expect_bits(const Problem& p) {
  expect_host_reference_bits([&] { return run(p).joined(); }, p.text());
}

TEST(Recurrent, EveryImplementationGivesTheReferencesBits) {
  unsigned seed = 0;
  for (const RecurrentCell cell : kCells) {
    for (const std::int64_t hidden : {1, 7, 16, 33, 70}) {
      expect_bits(problem(cell, hidden, {5, 5, 5}, ++seed));
      expect_bits(problem(cell, hidden, {17, 17, 9, 2, 1}, ++seed));
    }
    expect_bits(problem(cell, 24, {1}, ++seed));
    expect_bits(problem(cell, 24, {1, 1, 1, 1}, ++seed));
    expect_bits(problem(cell, 20, {31, 30, 16, 16, 15, 14, 1}, ++seed, true));
    expect_bits(problem(cell, 20, {31, 30, 16, 16, 15, 14, 1}, ++seed, true));
    expect_bits(problem(cell, 0, {3, 3}, ++seed));
    expect_bits(problem(cell, 5, {0, 0}, ++seed));
  }
}

TEST(Recurrent, LeavesAndTrees) {  // of the hidden state, of the gates, and of the rows of one step
  expect_bits(problem(RecurrentCell::lstm, 135, {6, 3}, 31));
  expect_bits(problem(RecurrentCell::gru, 520, {3, 2}, 32));
  expect_bits(problem(RecurrentCell::rnn_tanh, 1030, {2, 2}, 33));
  expect_bits(problem(RecurrentCell::rnn_relu, 9, {1100, 600, 30}, 34));
}

// ---- against binary64, by the plain formulas of an LSTM and a GRU without the gradients of last states

struct Plain {
  std::vector<double> y, dgates, dweight;
};

Plain plain(const Problem& p) {
  const RecurrentShape s = p.shape();
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const std::int64_t h = p.hidden, width = s.width(), all = p.first.back();
  Plain out{std::vector<double>(static_cast<std::size_t>(all * h)),
            std::vector<double>(static_cast<std::size_t>(all * width)),
            std::vector<double>(static_cast<std::size_t>(width * h))};
  std::vector<double> gates(static_cast<std::size_t>(all * width)), cells(out.y), hidden_n(out.y);
  for (std::int64_t r = 0; r < s.batch(); ++r) {
    std::vector<double> state(p.h0.begin() + r * h, p.h0.begin() + (r + 1) * h),
        cell(p.c0.begin() + r * h, p.c0.begin() + (r + 1) * h);
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < s.steps; ++i)
      if (r < s.rows[s.time(i)]) order.push_back(s.time(i));
    std::vector<std::vector<double>> before_h, before_c;
    for (const std::int64_t t : order) {
      before_h.push_back(state), before_c.push_back(cell);
      double* const g = gates.data() + (s.first[t] + r) * width;
      std::vector<double> hidden(static_cast<std::size_t>(width));
      for (std::int64_t j = 0; j < width; ++j) {
        hidden[j] = p.bias ? p.b[j] : 0;
        for (std::int64_t k = 0; k < h; ++k) hidden[j] += p.weight[j * h + k] * before_h.back()[k];
      }
      for (std::int64_t u = 0; u < h; ++u) {
        const float* const x = p.x.data() + (s.first[t] + r) * width + u;
        const std::int64_t at = (s.first[t] + r) * h + u;
        if (p.cell == RecurrentCell::lstm) {
          for (int gate : {0, 1, 2, 3}) {
            const double sum = x[gate * h] + hidden[gate * h + u];
            g[gate * h + u] = gate == 2 ? std::tanh(sum) : sigmoid(sum);
          }
          cell[u] = g[h + u] * cell[u] + g[u] * g[2 * h + u];
          state[u] = g[3 * h + u] * std::tanh(cell[u]);
        } else {
          g[u] = sigmoid(x[0] + hidden[u]), g[h + u] = sigmoid(x[h] + hidden[h + u]);
          hidden_n[at] = hidden[2 * h + u];
          g[2 * h + u] = std::tanh(x[2 * h] + hidden_n[at] * g[u]);
          state[u] = (1 - g[h + u]) * g[2 * h + u] + g[h + u] * state[u];
        }
        cells[at] = cell[u], out.y[at] = state[u];
      }
    }
    std::vector<double> dh(static_cast<std::size_t>(h)), dc(dh);
    for (std::size_t i = order.size(); i-- > 0;) {
      const std::int64_t t = order[i], row = s.first[t] + r;
      const double* const g = gates.data() + row * width;
      double* const d = out.dgates.data() + row * width;
      std::vector<double> hidden(static_cast<std::size_t>(width)), carried(dh.size());
      for (std::int64_t u = 0; u < h; ++u) {
        const double dy = dh[u] + p.dy[row * h + u];
        if (p.cell == RecurrentCell::lstm) {
          const double tanh_c = std::tanh(cells[row * h + u]), c = dc[u] + dy * g[3 * h + u] * (1 - tanh_c * tanh_c);
          const double in = g[u], forget = g[h + u], value = g[2 * h + u], o = g[3 * h + u];
          d[u] = c * value * in * (1 - in), d[h + u] = c * before_c[i][u] * forget * (1 - forget);
          d[2 * h + u] = c * in * (1 - value * value), d[3 * h + u] = dy * tanh_c * o * (1 - o);
          dc[u] = c * forget;
          for (int gate : {0, 1, 2, 3}) hidden[gate * h + u] = d[gate * h + u];
        } else {
          const double reset = g[u], z = g[h + u], n = g[2 * h + u], dn = dy * (1 - z) * (1 - n * n);
          d[u] = dn * hidden_n[row * h + u] * reset * (1 - reset), d[h + u] = dy * (before_h[i][u] - n) * z * (1 - z);
          d[2 * h + u] = dn;
          hidden[u] = d[u], hidden[h + u] = d[h + u], hidden[2 * h + u] = dn * reset, carried[u] = dy * z;
        }
      }
      for (std::int64_t k = 0; k < h; ++k) {
        dh[k] = carried[k];
        for (std::int64_t j = 0; j < width; ++j) {
          dh[k] += hidden[j] * p.weight[j * h + k];
          out.dweight[j * h + k] += hidden[j] * before_h[i][k];
        }
      }
    }
  }
  return out;
}

double error(const Floats& got, const std::vector<double>& expected) {
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst = std::max(worst, std::fabs(got[i] - expected[i])), scale = std::max(scale, std::fabs(expected[i]));
  }
  return worst / scale;
}

TEST(Recurrent, AgreesWithBinary64) {
  for (const RecurrentCell cell : {RecurrentCell::lstm, RecurrentCell::gru}) {
    for (const unsigned seed : {2u, 3u}) {  // reverse with bias; without
      Problem p = problem(cell, 40, {9, 9, 9, 8, 8, 5, 5, 4, 1, 1, 1, 1}, seed);
      p.last = false;
      const Results got = run(p);
      const Plain expected = plain(p);
      EXPECT_LE(error(got.y, expected.y), 1e-6) << p.text();
      EXPECT_LE(error(got.dgates, expected.dgates), 2e-6) << p.text();
      EXPECT_LE(error(got.dweight, expected.dweight), 2e-6) << p.text();
      Problem wrong = p;
      wrong.reverse = !p.reverse;
      EXPECT_GT(error(run(wrong).y, expected.y), 1e-3) << "a wrong order of steps is not seen";
    }
  }
}

TEST(Recurrent, StepsAreAddedFromTheLastTaken) {
  // Products 1, 2^-24, 2^-24 of three steps of one row: from the small ones first 1 + 2^-23, else 1.
  const std::vector<std::int64_t> rows{1, 1, 1}, first{0, 1, 2, 3};
  const Floats a{1.0f, 0x1p-24f, 0x1p-24f}, b{1.0f, 1.0f, 1.0f};
  for_each_host_implementation([&](const std::string& where) {
    for (const bool reverse : {false, true}) {
      float product = 7, sum = 7;
      const RecurrentShape shape{RecurrentCell::lstm, 3, 1, rows.data(), first.data(), reverse};
      step_products(shape, 1, 1, a.data(), b.data(), &product);
      step_sums(shape, 1, a.data(), &sum);
      EXPECT_EQ(product, reverse ? 1.0f : 0x1.000002p0f) << where;
      EXPECT_EQ(sum, product) << where;
    }
  });
}

TEST(Recurrent, ASequenceAloneHasTheBitsItHasInABatch) {
  const Problem p = problem(RecurrentCell::lstm, 19, {6, 6, 4, 4}, 5);
  Problem one = p;
  one.rows = {1, 1}, one.first = {0, 1, 2};  // sequence 5, two steps long
  const auto width = static_cast<std::ptrdiff_t>(p.shape().width());
  one.x.assign(p.x.begin() + 5 * width, p.x.begin() + 6 * width);
  one.x.insert(one.x.end(), p.x.begin() + 11 * width, p.x.begin() + 12 * width);
  one.h0.assign(p.h0.begin() + 5 * 19, p.h0.end()), one.c0.assign(p.c0.begin() + 5 * 19, p.c0.end());
  const Results alone = run(one), together = run(p);
  EXPECT_TRUE(same_bits(alone.c, Floats(together.c.begin() + 5 * 19, together.c.end())));
}

}  // namespace
}  // namespace isobit::kernels
