// Graphs and the switch: a graph recorded with the switch on raises when backward runs with it off, and the
// reverse.
//
// Every autograd node carries the number of the thread that made it and a number that counts that thread's nodes. A
// flip of the switch notes where the flipping thread stands, and which thread would be the next to get a number:
// threads with larger ones record their first node after it. What other threads recorded between flips is noted by an
// observer of every operator call, which is there only while a thread that had recorded before a flip may record after
// it: it takes 0.2 us a call. Backward looks every node up before it runs any. The check is in front of the engine that
// C++ asks for. Python's backward goes to its own engine directly: the Python package calls check() before
// (docs/guard.md). Thread-safe, but for mark(), which must not run beside operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace isobit::aten::graph_check {

// The switch was just turned on or off by the calling thread.
void mark(bool on);

// Notes where the calling thread stands, before any operator of it was called (a custom autograd function makes its
// node first). Cheap; models call it by ModuleScope.
void observe();

// The calling thread records no graph, ever: one of our own, which computes a part of an operator. Cheap but for the
// first time.
void is_without_nodes();

// Whether every operator's call is observed: since the last flip, some thread may record that had recorded before.
[[nodiscard]] bool observes();

// Whether anybody else observes the calling thread's operators (a profiler, a trace).
[[nodiscard]] bool others_watch();

// What the engine does before a backward from these tensors: refuses where a node of their graphs was recorded under
// the other setting of the switch. Tensors without a graph pass.
void check(const std::vector<at::Tensor>& roots);

}  // namespace isobit::aten::graph_check
