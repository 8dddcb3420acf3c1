#include "golden/enumerators.h"
#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/recurrent.h"

#pragma GCC diagnostic error "-Wswitch"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;
using kernels::RecurrentCell;
using kernels::RecurrentShape;

const char* name_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::lstm: return "lstm";
    case RecurrentCell::gru: return "gru";
    case RecurrentCell::rnn_tanh: return "rnn_tanh";
    case RecurrentCell::rnn_relu: return "rnn_relu";
  }
  return nullptr;
}

struct Layer {
  std::int64_t hidden;
  std::vector<std::int64_t> rows;
  bool reverse = false, bias = true, last = true, wild = false;  // last: the last states have gradients
};

// Forward with and without what backward needs, then backward.
Fingerprint layer(RecurrentCell cell, const Layer& layer) {
  std::vector<std::int64_t> first{0};
  for (const std::int64_t count : layer.rows) first.push_back(first.back() + count);
  const RecurrentShape s{
      cell, static_cast<std::int64_t>(layer.rows.size()), layer.hidden, layer.rows.data(), first.data(), layer.reverse};
  const std::int64_t width = s.width(), all = first.back() * s.hidden, state = s.batch() * s.hidden;
  const auto values = [&](std::uint64_t key, std::int64_t n, float reach) {
    return layer.wild ? hostile(key, n, key == 203) : uniform(key, n, -reach, reach);
  };
  const float reach = 1.0f / static_cast<float>(1 + s.hidden / 16);
  const Floats weight = values(201, width * s.hidden, reach), bias = values(202, width, reach);
  const Floats x = values(203, first.back() * width, 2.0f), h0 = values(204, state, 1.0f),
               c0 = values(205, state, 1.0f);
  const Floats dy = values(206, all, 1.0f), dh = values(207, state, 1.0f), dc = values(208, state, 1.0f);
  const bool lstm = cell == RecurrentCell::lstm, gru = cell == RecurrentCell::gru;
  const auto count = static_cast<std::size_t>(all);
  Digest digest;
  Floats gates, h, c, y(count), cells(lstm ? count : 0), tanh_cells(cells), hidden_n(gru ? count : 0);
  const auto kept = [](Floats& memory) { return memory.empty() ? nullptr : memory.data(); };
  for (const bool keep : {false, true}) {
    gates = x, h = h0, c = lstm ? c0 : Floats();
    kernels::recurrent_forward({.shape = s,
                                .weight = weight.data(),
                                .bias = layer.bias ? bias.data() : nullptr,
                                .gates = gates.data(),
                                .h = h.data(),
                                .c = kept(c),
                                .y = y.data(),
                                .cells = keep ? kept(cells) : nullptr,
                                .tanh_cells = keep ? kept(tanh_cells) : nullptr,
                                .hidden_n = keep ? kept(hidden_n) : nullptr});
    digest.add(y).add(h).add(c);
  }
  Floats dgates(gates.size()), dhidden_gates(gru ? gates.size() : 0), dh0(h0.size()), dc0(lstm ? c0.size() : 0);
  Floats dbias(bias.size()), dweight(weight.size());
  kernels::recurrent_backward({.shape = s,
                               .weight = weight.data(),
                               .gates = gates.data(),
                               .y = y.data(),
                               .cells = kept(cells),
                               .tanh_cells = kept(tanh_cells),
                               .hidden_n = kept(hidden_n),
                               .h0 = h0.data(),
                               .c0 = lstm ? c0.data() : nullptr,
                               .dy = dy.data(),
                               .dh = layer.last ? dh.data() : nullptr,
                               .dc = lstm && layer.last ? dc.data() : nullptr,
                               .dgates = dgates.data(),
                               .dhidden_gates = kept(dhidden_gates),
                               .dh0 = dh0.data(),
                               .dc0 = kept(dc0),
                               .dbias = dbias.data(),
                               .dweight = dweight.data()});
  return digest.add(dgates).add(dhidden_gates).add(dh0).add(dc0).add(dbias).add(dweight).result();
}

}  // namespace

void add_recurrent_cases(std::vector<Case>& cases) {
  for_each_enumerator<RecurrentCell>(name_of, [&](RecurrentCell cell, const char* name) {
    const auto add = [&](const char* feature, const Layer& one) {
      cases.push_back({"recurrent." + std::string(name) + "_" + feature, [=] { return layer(cell, one); }, true});
    };
    add("plain", {.hidden = 33, .rows = {5, 5, 5}});
    add("packed", {.hidden = 23, .rows = {19, 17, 17, 8, 2, 1}, .reverse = true, .last = false});
    add("no_bias", {.hidden = 7, .rows = {3, 3, 1, 1}, .bias = false});
    add("wild", {.hidden = 20, .rows = {18, 16, 3}, .reverse = true, .wild = true});
    add("leaves", {.hidden = 515, .rows = {2, 1}});        // of the hidden state and of the gates
    add("many_rows", {.hidden = 3, .rows = {1030, 514}});  // of the rows of one step
  });
}

}  // namespace isobit::golden
