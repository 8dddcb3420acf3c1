#include "aten/graph_check.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>

#include "aten/module_path.h"
#include "aten/refusal.h"

namespace isobit::aten::graph_check {
namespace {

using torch::autograd::Engine;
using torch::autograd::Node;

// From this sequence number on, the thread's nodes are recorded with the switch on (or off).
struct Flip {
  std::uint64_t first;
  bool on;
};

std::mutex mutex;
std::unordered_map<std::uint64_t, std::vector<Flip>> flips_of_thread;  // ascending by `first`
std::atomic<std::uint64_t> generation = 0;                             // counts marks
std::atomic<bool> switch_on = false;
thread_local std::uint64_t seen = 0;  // the generation this thread has noted

void note(bool on) {
  const std::lock_guard lock(mutex);
  std::vector<Flip>& flips = flips_of_thread[at::RecordFunction::currentThreadId()];
  const std::uint64_t first = at::sequence_number::peek();
  // Nothing was recorded since the last flip: this one replaces it.
  if (!flips.empty() && flips.back().first == first) flips.pop_back();
  if (flips.empty() ? on : flips.back().on != on) flips.push_back({first, on});
}

bool recorded_on(const Node& node) {
  const auto found = flips_of_thread.find(node.thread_id());
  if (found == flips_of_thread.end()) return false;
  const std::vector<Flip>& flips = found->second;
  const auto after = std::upper_bound(flips.begin(), flips.end(), node.sequence_nr(),
                                      [](std::uint64_t number, const Flip& flip) { return number < flip.first; });
  return after != flips.begin() && std::prev(after)->on;
}

// Gradient accumulators are made once per parameter and belong to no regime.
bool is_accumulator(const Node& node) { return node.sequence_nr() == UINT64_MAX; }

void check(const torch::autograd::edge_list& roots) {
  const bool on = switch_on;
  const std::lock_guard lock(mutex);
  std::vector<const Node*> open;
  std::unordered_set<const Node*> met;
  const auto meet = [&](const torch::autograd::edge_list& edges) {
    for (const auto& edge : edges) {
      if (edge.function && met.insert(edge.function.get()).second) open.push_back(edge.function.get());
    }
  };
  meet(roots);
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    if (!is_accumulator(node) && recorded_on(node) != on) {
      refuse("backward of " + node.name(),
             on ? "was recorded with isobit off and cannot run with it on"
                : "was recorded with isobit on and cannot run with it off",
             "run forward and backward under the same setting of the switch");
    }
    meet(node.next_edges());
  }
}

class CheckingEngine final : public Engine {
 public:
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    check(roots);
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
};

// Never destroyed, as torch's own: its threads may outlive main.
Engine& checking_engine() {
  static Engine* const engine = new CheckingEngine();
  return *engine;
}

// Python has brought its own engine, which is left alone.
void install_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    Engine& current = Engine::get_default_engine();
    if (typeid(current) == typeid(Engine)) torch::autograd::set_default_engine_stub(checking_engine);
  });
}

}  // namespace

void mark(bool on) {
  install_engine();
  switch_on = on;
  seen = ++generation;
  note(on);
}

void observe() {
  const std::uint64_t now = generation.load(std::memory_order_relaxed);
  if (seen == now) return;
  seen = now;
  note(switch_on);
}

}  // namespace isobit::aten::graph_check
