#include "aten/graph_check.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
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

// Between two flips of the switch.
struct Regime {
  bool on;
  std::uint64_t newborn;  // threads of this number and more record their first node in it or later
  bool observed;          // every operator's call; else all threads are newborn or known to stand where `Mark` says
};
// From this number on, the thread's nodes belong to a regime.
struct Mark {
  std::size_t regime;
  std::uint64_t first;
};
struct Thread {
  std::vector<Mark> marks;              // ascending
  std::atomic<std::size_t> seen = 0;    // the regime that it was last observed in
  std::atomic<std::uint64_t> next = 0;  // the number of its next node then
};

// Never destroyed: threads may outlive main.
std::mutex& mutex = *new std::mutex;
// Kept when a thread ends, as its graph may live on.
std::unordered_map<std::uint64_t, Thread>& threads = *new std::unordered_map<std::uint64_t, Thread>;
std::vector<Regime>& regimes = *new std::vector<Regime>{{false, 0, false}};
std::uint64_t without_nodes = 0;  // threads with numbers that record nothing
std::atomic<std::size_t> current = 0;
at::CallbackHandle observer = at::INVALID_CALLBACK_HANDLE;

thread_local Thread* self = nullptr;

// The lock is held.
Thread& this_thread() {
  if (self == nullptr) self = &threads[at::RecordFunction::currentThreadId()];
  return *self;
}

void begin_regime(std::size_t now) {
  const std::lock_guard lock(mutex);
  Thread& thread = this_thread();
  const bool stranger = at::RecordFunction::currentThreadId() < regimes[now].newborn;
  if (regimes[now].observed && stranger && (thread.marks.empty() || thread.marks.back().regime != now))
    thread.marks.push_back({now, at::sequence_number::peek()});
  thread.seen = now;
}

// An operator is about to be called, before its node is made; or it is done: its node and its children's are numbered.
std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction&) {
  observe();
  return nullptr;
}
void after_operator(const at::RecordFunction&, at::ObserverContext*) { observe(); }

// The number that the next thread would get, and has now.
std::uint64_t number_of_a_new_thread() {
  std::uint64_t number = 0;
  std::thread([&] { number = at::RecordFunction::currentThreadId(); }).join();
  return number;
}

void watch_operators(bool watch) {
  if (watch == observes()) return;
  if (watch) {
    observer = at::addGlobalCallback(
        at::RecordFunctionCallback(before_operator, after_operator).scopes({at::RecordScope::FUNCTION}));
  } else {
    at::removeCallback(observer);
    observer = at::INVALID_CALLBACK_HANDLE;
  }
}

// The lock is held.
bool recorded_on(const Node& node) {
  const auto found = threads.find(node.thread_id());
  if (found != threads.end()) {
    const std::vector<Mark>& marks = found->second.marks;
    const auto after = std::upper_bound(marks.begin(), marks.end(), node.sequence_nr(),
                                        [](std::uint64_t number, const Mark& mark) { return number < mark.first; });
    if (after != marks.begin()) return regimes[std::prev(after)->regime].on;
  }
  const auto later =
      std::upper_bound(regimes.begin(), regimes.end(), node.thread_id(),
                       [](std::uint64_t number, const Regime& regime) { return number < regime.newborn; });
  return std::prev(later)->on;
}

// Gradient accumulators are made once per parameter and belong to no regime.
bool is_accumulator(const Node& node) { return node.sequence_nr() == UINT64_MAX; }

// A node that was recorded under the other setting, kept alive by the roots; nullptr where there is none.
const Node* other_node(const torch::autograd::edge_list& roots, bool& on) {
  const std::lock_guard lock(mutex);
  on = regimes.back().on;
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
    if (!is_accumulator(node) && recorded_on(node) != on) return &node;
    meet(node.next_edges());
  }
  return nullptr;
}

// Without the lock: the name of a node of Python's waits for the interpreter, which may wait in observe().
void check_edges(const torch::autograd::edge_list& roots) {
  bool on = false;
  const Node* const node = other_node(roots, on);
  if (node == nullptr) return;
  refuse("backward of " + node->name(),
         on ? "was recorded with isobit off and cannot run with it on"
            : "was recorded with isobit on and cannot run with it off",
         "run forward and backward both with isobit on, or both with it off");
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
  const std::uint64_t own = at::RecordFunction::currentThreadId();  // before the next is given
  const std::uint64_t newborn = number_of_a_new_thread();
  bool observed = false;
  {
    const std::lock_guard lock(mutex);
    const std::size_t before = regimes.size() - 1, now = regimes.size();
    const Regime& last = regimes[before];
    if (on) {
      observed = newborn - 1 > without_nodes + 1;  // others than this thread have a number
    } else if (last.observed) {
      for (auto& [number, thread] : threads)
        if (thread.seen == before && number != own) thread.marks.push_back({now, thread.next});
    } else {
      observed = newborn - 1 > last.newborn;  // of threads born since, nothing is known
    }
    Thread& flipping = threads[own];
    flipping.next = at::sequence_number::peek();
    flipping.seen = now;
    flipping.marks.push_back({now, flipping.next});
    regimes.push_back({on, newborn, observed});
    ++without_nodes;
    current = now;
  }
  watch_operators(observed);
}

void is_without_nodes() {
  thread_local bool said = false;
  if (std::exchange(said, true)) return;
  static_cast<void>(at::RecordFunction::currentThreadId());
  const std::lock_guard lock(mutex);
  ++without_nodes;
}

void observe() {
  const std::size_t now = current.load(std::memory_order_relaxed);
  if (now == 0) return;
  if (self == nullptr || self->seen.load(std::memory_order_relaxed) != now) begin_regime(now);
  self->next.store(at::sequence_number::peek(), std::memory_order_relaxed);
}

bool observes() { return observer != at::INVALID_CALLBACK_HANDLE; }

bool others_watch() {
  const std::size_t ours = observes() ? 1 : 0;
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
