// The steps of recurrent layers: the weight is packed once for the sequence, each step is a product of packed tiles
// whose gates are computed while they lie in the cache. (docs/contract.md, section 11; formulas in
// contract/recurrent.h.)
//
// Rows are sequences and independent of each other: with enough of them every thread takes some through the whole
// sequence and waits for nobody. With few, the threads share the hidden units of every step that is worth it.
#include "contract/recurrent.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lane_leaf.h"
#include "kernels/cpu/vector/lane_map.h"
#include "kernels/cpu/vector/packed_product.h"
#include "kernels/cpu/vector/step_products.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

ISOBIT_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
ISOBIT_INLINE std::int64_t panels_of(std::int64_t n) { return (n + kTileColumns - 1) / kTileColumns; }

// Rows are cut into tiles of about the same height: a last one of two rows would take nearly as long as a full one.
struct RowTiles {
  std::int64_t begin, rows, tiles;
  RowTiles(std::int64_t b, std::int64_t e) : begin(b), rows(e - b), tiles((e - b + kTileRows - 1) / kTileRows) {}
  [[nodiscard]] std::int64_t first(std::int64_t tile) const { return begin + rows * tile / tiles; }
  [[nodiscard]] std::int64_t count(std::int64_t tile) const { return first(tile + 1) - first(tile); }
};

// How the threads share a sequence.
enum class Share { rows, units, alone };
Share share_for(const RecurrentShape& s) {
  const std::int64_t threads = thread_count();
  const double weight = static_cast<double>(s.width()) * static_cast<double>(s.hidden);
  if (threads == 1) return Share::alone;
  // Every thread reads the whole weight in each step: from its own cache, if it fits there.
  if (s.batch() >= 4 * threads && weight <= 1e6) return Share::rows;
  if (weight * static_cast<double>(s.batch()) > 4e5) return Share::units;
  return s.batch() >= 4 * threads ? Share::rows : Share::alone;
}

// The steps in the order they are taken, or its reverse. In each, for tiles of rows [r0, r0 + rows):
//   pack(t, r0, rows, a)           packs what the step multiplies with the weight
//   units(t, r0, rows, a, panel)   then computes one panel's units of those rows
// All tiles meet a panel before the next one: the weight, often larger than a cache, is read once a step.
template <class Pack, class Units>
void take_steps(const RecurrentShape& s, bool backwards, std::int64_t packed_terms, const Pack& pack,
                const Units& units) {
  const std::int64_t panels = panels_of(s.hidden), tile_floats = packed_terms * kTileRows;
  const auto time = [&](std::int64_t i) { return s.time(backwards ? s.steps - 1 - i : i); };
  const Share share = share_for(s);
  if (share != Share::units) {
    const auto rows = [&](std::int64_t begin, std::int64_t end) {
      Workspace workspace;
      float* const a = workspace.floats((end - begin + kTileRows - 1) / kTileRows * tile_floats);
      for (std::int64_t i = 0; i < s.steps; ++i) {
        const std::int64_t t = time(i), last = smaller(end, s.rows[t]);
        if (last <= begin) continue;
        const RowTiles tiles(begin, last);
        for (std::int64_t tile = 0; tile < tiles.tiles; ++tile) {
          pack(t, tiles.first(tile), tiles.count(tile), a + tile * tile_floats);
        }
        for (std::int64_t panel = 0; panel < panels; ++panel) {
          for (std::int64_t tile = 0; tile < tiles.tiles; ++tile) {
            units(t, tiles.first(tile), tiles.count(tile), a + tile * tile_floats, panel);
          }
        }
      }
    };
    if (share == Share::alone) return rows(0, s.batch());
    return parallel_for(0, s.batch(), 4, rows);
  }
  Workspace workspace;
  float* const a = workspace.floats((s.batch() + kTileRows - 1) / kTileRows * tile_floats);
  for (std::int64_t i = 0; i < s.steps; ++i) {
    const std::int64_t t = time(i);
    const RowTiles tiles(0, s.rows[t]);
    for (std::int64_t tile = 0; tile < tiles.tiles; ++tile) {
      pack(t, tiles.first(tile), tiles.count(tile), a + tile * tile_floats);
    }
    parallel_for(0, panels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) {
        for (std::int64_t tile = 0; tile < tiles.tiles; ++tile) {
          units(t, tiles.first(tile), tiles.count(tile), a + tile * tile_floats, panel);
        }
      }
    });
  }
}

// ---- forward

template <RecurrentCell cell>
struct ForwardUnits {
  static constexpr int kGates = cell == RecurrentCell::lstm ? 4 : cell == RecurrentCell::gru ? 3 : 1;
  const RecurrentForward& p;
  const float* packed;  // [panel][gate][hidden][kTileColumns]

  void operator()(std::int64_t t, std::int64_t r0, std::int64_t rows, const float* a, std::int64_t panel) const {
    const RecurrentShape& s = p.shape;
    const std::int64_t u0 = panel * kTileColumns, columns = smaller(kTileColumns, s.hidden - u0);
    alignas(64) float product[kGates][kTileSize];
    Workspace workspace;
    float* const partial = workspace.floats(packed_product_scratch(s.hidden));
    // The inputs' part lies in pieces far apart, which no cache foresees.
    for (std::int64_t row = s.first[t] + r0; row < s.first[t] + r0 + rows; ++row) {
      for (int g = 0; g < kGates; ++g) {
        for (std::int64_t l = 0; l < columns; l += 16)
          __builtin_prefetch(p.gates + (row * kGates + g) * s.hidden + u0 + l);
      }
    }
    for (int g = 0; g < kGates; ++g) {
      packed_product(a, packed + (panel * kGates + g) * s.hidden * kTileColumns, s.hidden, rows, columns, product[g],
                     partial);
    }
    if constexpr (cell == RecurrentCell::lstm) return lstm(t, r0, rows, u0, columns, product);
    for (std::int64_t r = 0; r < rows; ++r) {
      for_each_register(columns, [&](std::int64_t l, auto part) {
        const auto hidden = [&](int g) {
          const FloatLanes tile = load(product[g] + r * kTileColumns + l);
          return p.bias == nullptr ? tile : fetch(p.bias + g * s.hidden + u0 + l, part) + tile;
        };
        element(t, r0 + r, u0 + l, part, hidden);
      });
    }
  }

  // A function of a tile's elements, in place.
  template <class Function>
  static void activate(Function function, std::int64_t rows, std::int64_t columns, float* tile) {
    // The lanes past the columns hold copies.
    if (lanes_of(columns) == kTileColumns) return map_range<FloatGroup>(function, tile, 0, rows * kTileColumns, tile);
    for (std::int64_t r = 0; r < rows; ++r)
      map_range<FloatLanes>(function, tile + r * kTileColumns, 0, columns, tile + r * kTileColumns);
  }
  struct Sigmoid {
    template <class Lane>
    ISOBIT_FORMULA Lane operator()(Lane x) const {
      return contract::sigmoid(x);
    }
  };
  struct Tanh {
    template <class Lane>
    ISOBIT_FORMULA Lane operator()(Lane x) const {
      return contract::tanh(x);
    }
  };

  // One function of a whole tile after the other: a register's step by itself is a chain too long to be hidden by its
  // neighbours'. `tile` has the hidden state's part of the gates.
  void lstm(std::int64_t t, std::int64_t r0, std::int64_t rows, std::int64_t u0, std::int64_t columns,
            float (&tile)[kGates][kTileSize]) const {
    const std::int64_t h = p.shape.hidden, first = p.shape.first[t] + r0;
    // function(place in a tile, row of the tile, unit from u0, Whole or Part)
    const auto each = [&](auto function) {
      for (std::int64_t r = 0; r < rows; ++r)
        for_each_register(columns, [&](std::int64_t l, auto part) { function(r * kTileColumns + l, r, l, part); });
    };
    for (int g = 0; g < kGates; ++g) {
      const auto gate = [&](std::int64_t r, std::int64_t l) {
        return p.gates + ((first + r) * kGates + g) * h + u0 + l;
      };
      each([&](std::int64_t at, std::int64_t r, std::int64_t l, auto part) {
        FloatLanes sum = load(tile[g] + at);
        if (p.bias != nullptr) sum = fetch(p.bias + g * h + u0 + l, part) + sum;
        store(tile[g] + at, sum + fetch(gate(r, l), part));
      });
      g == 2 ? activate(Tanh(), rows, columns, tile[g]) : activate(Sigmoid(), rows, columns, tile[g]);
      each([&](std::int64_t at, std::int64_t r, std::int64_t l, auto part) {
        put(gate(r, l), load(tile[g] + at), part);
      });
    }
    float* const cells = tile[1];  // the second gate is needed no more
    each([&](std::int64_t at, std::int64_t r, std::int64_t l, auto part) {
      float* const state = p.c + (r0 + r) * h + u0 + l;
      const FloatLanes c =
          contract::lstm_cell(load(tile[0] + at), load(tile[1] + at), load(tile[2] + at), fetch(state, part));
      put(state, c, part), store(cells + at, c);
      if (p.cells != nullptr) put(p.cells + (first + r) * h + u0 + l, c, part);
    });
    activate(Tanh(), rows, columns, cells);
    each([&](std::int64_t at, std::int64_t r, std::int64_t l, auto part) {
      const FloatLanes tanh_c = load(cells + at);
      const std::int64_t row = (first + r) * h + u0 + l;
      if (p.tanh_cells != nullptr) put(p.tanh_cells + row, tanh_c, part);
      finish(row, (r0 + r) * h + u0 + l, load(tile[3] + at) * tanh_c, part);
    });
  }

  template <class Part, class Hidden>
  ISOBIT_INLINE void element(std::int64_t t, std::int64_t r, std::int64_t u, Part part, Hidden hidden) const {
    const std::int64_t h = p.shape.hidden, row = p.shape.first[t] + r, at = row * h + u, state = r * h + u;
    [[maybe_unused]] float* const g = p.gates + row * kGates * h + u;
    if constexpr (cell == RecurrentCell::gru) {
      contract::GruStep<FloatLanes> step;
      step.r = hidden(0) + fetch(g, part), step.z = hidden(1) + fetch(g + h, part);
      step.n = fetch(g + 2 * h, part), step.hidden_n = hidden(2);
      if (p.hidden_n != nullptr) put(p.hidden_n + at, step.hidden_n, part);
      step = contract::gru_step(step, fetch(p.h + state, part));
      put(g, step.r, part), put(g + h, step.z, part), put(g + 2 * h, step.n, part);
      finish(at, state, step.h, part);
    } else {
      const FloatLanes sum = hidden(0) + fetch(g, part);
      const FloatLanes value = cell == RecurrentCell::rnn_tanh ? contract::tanh(sum) : contract::relu(sum);
      put(g, value, part);
      finish(at, state, value, part);
    }
  }

  template <class Part>
  ISOBIT_INLINE void finish(std::int64_t at, std::int64_t state, FloatLanes value, Part part) const {
    put(p.y + at, value, part);
    put(p.h + state, value, part);
  }
};

template <RecurrentCell cell>
void forward(const RecurrentForward& p) {
  constexpr int kGates = ForwardUnits<cell>::kGates;
  const std::int64_t h = p.shape.hidden, panels = panels_of(h);
  Workspace workspace;
  float* const packed = workspace.floats(panels * kGates * h * kTileColumns);
  parallel_for(0, panels * kGates, 1 + 65536 / (h * kTileColumns + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t u0 = i / kGates * kTileColumns, gate = i % kGates;
      pack_panel<kTileColumns>(p.weight + (gate * h + u0) * h, 1, h, h, smaller(kTileColumns, h - u0),
                               packed + i * h * kTileColumns);
    }
  });
  // The state is overwritten only after all of a tile's rows have been packed.
  const auto pack = [&](std::int64_t, std::int64_t r0, std::int64_t rows, float* a) {
    pack_panel<kTileRows>(p.h + r0 * h, 1, h, h, rows, a);
  };
  take_steps(p.shape, false, h, pack, ForwardUnits<cell>{p, packed});
}

void recurrent_steps(const RecurrentForward& p) {
  if (p.shape.batch() == 0 || p.shape.hidden == 0) return;
  switch (p.shape.cell) {
    case RecurrentCell::lstm: return forward<RecurrentCell::lstm>(p);
    case RecurrentCell::gru: return forward<RecurrentCell::gru>(p);
    case RecurrentCell::rnn_tanh: return forward<RecurrentCell::rnn_tanh>(p);
    case RecurrentCell::rnn_relu: return forward<RecurrentCell::rnn_relu>(p);
  }
}

// ---- backward

template <RecurrentCell cell>
struct BackwardUnits {
  static constexpr int kGates = ForwardUnits<cell>::kGates;
  const RecurrentBackward& p;
  const float* packed;  // [panel][width][kTileColumns]
  float* carried;

  void operator()(std::int64_t t, std::int64_t r0, std::int64_t rows, const float* a, std::int64_t panel) const {
    const RecurrentShape& s = p.shape;
    const std::int64_t u0 = panel * kTileColumns, columns = smaller(kTileColumns, s.hidden - u0);
    alignas(64) float product[kTileSize];
    if (s.after(t, r0) >= 0) {
      Workspace workspace;
      packed_product(a, packed + panel * s.width() * kTileColumns, s.width(), rows, columns, product,
                     workspace.floats(packed_product_scratch(s.width())));
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      for_each_register(columns, [&](std::int64_t l, auto part) {
        element(t, r0 + r, u0 + l, part, product + r * kTileColumns + l);
      });
    }
  }

  template <class Part>
  ISOBIT_INLINE void element(std::int64_t t, std::int64_t r, std::int64_t u, Part part, const float* product) const {
    const RecurrentShape& s = p.shape;
    const std::int64_t h = s.hidden, row = s.first[t] + r, at = row * h + u, state = r * h + u;
    const std::int64_t before = s.before(t, r);
    const bool next = s.after(t, r) >= 0;
    // Consumers of h, the last first: the stack of outputs, this cell's state in the next step, its product.
    bool any = p.dy != nullptr;
    FloatLanes dh = any ? fetch(p.dy + at, part) : FloatLanes(0.0f);
    const auto add = [&](FloatLanes x) { dh = any ? dh + x : x, any = true; };
    if (!next && p.dh != nullptr) add(fetch(p.dh + state, part));
    if (next && cell == RecurrentCell::gru) add(fetch(carried + state, part));
    if (next) add(load(product));
    const float* const g = p.gates + row * kGates * h + u;
    float* const d = p.dgates + row * kGates * h + u;
    if constexpr (cell == RecurrentCell::lstm) {
      contract::LstmStep<FloatLanes> step;
      step.i = fetch(g, part), step.f = fetch(g + h, part), step.g = fetch(g + 2 * h, part),
      step.o = fetch(g + 3 * h, part);
      step.tanh_c = fetch(p.tanh_cells + at, part);
      FloatLanes dc = contract::lstm_cell_gradient(dh, step.o, step.tanh_c);
      if (next) {
        dc = fetch(carried + state, part) + dc;
      } else if (p.dc != nullptr) {
        dc = fetch(p.dc + state, part) + dc;
      }
      const FloatLanes was = fetch(before < 0 ? p.c0 + state : p.cells + (s.first[before] + r) * h + u, part);
      const contract::LstmGradient<FloatLanes> gradient = contract::lstm_backward(step, was, dh, dc);
      put(d, gradient.i, part), put(d + h, gradient.f, part);
      put(d + 2 * h, gradient.g, part), put(d + 3 * h, gradient.o, part);
      put(carried + state, gradient.cell, part);
    } else if constexpr (cell == RecurrentCell::gru) {
      contract::GruStep<FloatLanes> step;
      step.r = fetch(g, part), step.z = fetch(g + h, part), step.n = fetch(g + 2 * h, part);
      step.hidden_n = fetch(p.hidden_n + at, part);
      const FloatLanes was = fetch(before < 0 ? p.h0 + state : p.y + (s.first[before] + r) * h + u, part);
      const contract::GruGradient<FloatLanes> gradient = contract::gru_backward(step, was, dh);
      float* const dhidden = p.dhidden_gates + row * kGates * h + u;
      put(d, gradient.r, part), put(d + h, gradient.z, part), put(d + 2 * h, gradient.n, part);
      put(dhidden, gradient.r, part), put(dhidden + h, gradient.z, part);
      put(dhidden + 2 * h, gradient.hidden_n, part);
      put(carried + state, gradient.hidden, part);
    } else if constexpr (cell == RecurrentCell::rnn_tanh) {
      put(d, contract::tanh_backward(dh, fetch(g, part)), part);
    } else {
      put(d, contract::relu_backward(dh, fetch(g, part)), part);
    }
  }
};

template <RecurrentCell cell>
void backward(const RecurrentBackward& p, float* carried) {
  const RecurrentShape& s = p.shape;
  const std::int64_t h = s.hidden, width = s.width(), panels = panels_of(h);
  const float* const gradients = cell == RecurrentCell::gru ? p.dhidden_gates : p.dgates;
  Workspace workspace;
  float* const packed = workspace.floats(panels * width * kTileColumns);
  parallel_for(0, panels, 1 + 65536 / (width * kTileColumns + 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      pack_panel<kTileColumns>(p.weight + i * kTileColumns, h, 1, width, smaller(kTileColumns, h - i * kTileColumns),
                               packed + i * width * kTileColumns);
    }
  });
  // The gates' gradients of the step after; rows that have none there are not asked for (copies of others stand there).
  const auto pack = [&](std::int64_t t, std::int64_t r0, std::int64_t rows, float* a) {
    const std::int64_t after = s.after(t, r0);
    if (after < 0) return;
    const std::int64_t there = smaller(rows, s.rows[after] - r0);
    pack_panel<kTileRows>(gradients + (s.first[after] + r0) * width, 1, width, width, there, a);
  };
  take_steps(s, true, width, pack, BackwardUnits<cell>{p, packed, carried});
}

void recurrent_steps_backward(const RecurrentBackward& p, float* carried) {
  if (p.shape.batch() == 0 || p.shape.hidden == 0) return;
  switch (p.shape.cell) {
    case RecurrentCell::lstm: return backward<RecurrentCell::lstm>(p, carried);
    case RecurrentCell::gru: return backward<RecurrentCell::gru>(p, carried);
    case RecurrentCell::rnn_tanh: return backward<RecurrentCell::rnn_tanh>(p, carried);
    case RecurrentCell::rnn_relu: return backward<RecurrentCell::rnn_relu>(p, carried);
  }
}

}  // namespace

void fill_recurrent(HostTable& t) {
  t.recurrent_steps = recurrent_steps;
  t.recurrent_steps_backward = recurrent_steps_backward;
  t.step_products = step_products;
}

}  // namespace isobit::kernels::ISOBIT_ISA
