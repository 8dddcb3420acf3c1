#include "aten/graph_check.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include "aten/check_mode.h"
#include "aten/module_path.h"
#include "aten/refusal.h"

namespace isobit::aten::graph_check {
namespace {

using torch::autograd::Engine;
using torch::autograd::Node;
using NodePointer = decltype(torch::autograd::Edge::function);  // differs between versions of torch

// Numbers of a thread's nodes that were recorded with the switch on: first to last, last excluded. The thread itself
// moves `last` on; backward on another thread may read it.
struct Period {
  explicit Period(std::uint64_t start) : first(start), last(start) {}
  const std::uint64_t first;
  std::atomic<std::uint64_t> last;
};

std::mutex mutex;
// Ascending; kept when the thread ends, as its graph may live on.
std::unordered_map<std::uint64_t, std::deque<Period>> periods_of_thread;
std::atomic<bool> switch_on = false;
std::atomic<std::uint64_t> generation = 0;  // counts flips
at::CallbackHandle observer = at::INVALID_CALLBACK_HANDLE;

struct Observed {
  std::uint64_t generation = 0;
  Period* period = nullptr;  // of that generation
};
thread_local Observed observed;
thread_local int operators = 0;  // that the thread is within

void begin_period(std::uint64_t now) {
  const std::lock_guard lock(mutex);
  observed.period = &periods_of_thread[at::RecordFunction::currentThreadId()].emplace_back(at::sequence_number::peek());
  observed.generation = now;
}

// An operator is about to be called: before its node is made.
std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction&) {
  ++operators;
  observe();
  return nullptr;
}
// It is done: its node and its children's are numbered.
void after_operator(const at::RecordFunction&, at::ObserverContext*) {
  if (operators > 0) --operators;
  observe();
}

bool recorded_on(const Node& node) {
  const auto found = periods_of_thread.find(node.thread_id());
  if (found == periods_of_thread.end()) return false;
  const std::deque<Period>& periods = found->second;
  const auto after = std::upper_bound(periods.begin(), periods.end(), node.sequence_nr(),
                                      [](std::uint64_t number, const Period& period) { return number < period.first; });
  return after != periods.begin() && node.sequence_nr() < std::prev(after)->last.load(std::memory_order_relaxed);
}

// Gradient accumulators are made once per parameter and belong to no regime.
bool is_accumulator(const Node& node) { return node.sequence_nr() == UINT64_MAX; }

void check_edges(const torch::autograd::edge_list& roots) {
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
             "run forward and backward both with isobit on, or both with it off");
    }
    meet(node.next_edges());
  }
}

// Checks, then leaves the work to torch's engine, or Python's: the threads of devices are started once per process and
// belong to whichever engine ran first.
class CheckingEngine final : public Engine {
 public:
  explicit CheckingEngine(Engine& torchs) : torchs_(torchs) {}
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    observe();  // looking up the root may have made the node of a view whose base was written to
    check_mode::or_note([&] { check_edges(roots); });
    return torchs_.execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& task, NodePointer root,
      torch::autograd::InputBuffer&& inputs) override {
    return torchs_.execute_with_graph_task(task, std::move(root), std::move(inputs));
  }
  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return torchs_.make_anomaly_metadata();
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return torchs_.get_default_saved_variable_hooks();
  }

 private:
  Engine& torchs_;
};

CheckingEngine* checker = nullptr;  // never destroyed, as torch's own
Engine& checking_engine() { return *checker; }

void install_engine() {
  static std::once_flag once;
  std::call_once(once, [] {
    checker = new CheckingEngine(Engine::get_default_engine());
    torch::autograd::set_default_engine_stub(checking_engine);
  });
}

}  // namespace

void mark(bool on) {
  install_engine();
  if (on) {
    switch_on = true;
    ++generation;
    observer = at::addGlobalCallback(
        at::RecordFunctionCallback(before_operator, after_operator).scopes({at::RecordScope::FUNCTION}));
    observe();
  } else {
    observe();
    at::removeCallback(observer);
    switch_on = false;
  }
}

void observe() {
  if (!switch_on.load(std::memory_order_relaxed)) return;
  const std::uint64_t now = generation.load(std::memory_order_relaxed);
  if (observed.generation != now) begin_period(now);
  observed.period->last.store(at::sequence_number::peek(), std::memory_order_relaxed);
}

int depth() { return operators; }

bool others_watch() {
  const std::size_t ours = switch_on ? 1 : 0;
  return at::getStepCallbacks(at::RecordScope::FUNCTION).callbacks_.size() > ours;
}

void check(const std::vector<at::Tensor>& roots) {
  torch::autograd::edge_list edges;
  for (const at::Tensor& root : roots) {
    if (root.requires_grad()) edges.push_back(torch::autograd::impl::gradient_edge(root));
  }
  observe();
  check_mode::or_note([&] { check_edges(edges); });
}

}  // namespace isobit::aten::graph_check
