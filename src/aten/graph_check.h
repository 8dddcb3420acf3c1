// Graphs and the switch: a graph recorded with the switch on raises when backward runs with it off, and the
// reverse.
//
// Every autograd node carries the thread that made it and a number that counts that thread's nodes. While the switch
// is on, an observer of every operator call notes the numbers between which each thread recorded; backward looks
// every node up before it runs any. What was not noted counts as recorded with the switch off.
// The check is in front of the engine that C++ asks for. Python's backward goes to its own engine directly: the Python
// package calls check() before (docs/guard.md). Thread-safe, but for mark(), which must not run beside operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace isobit::aten::graph_check {

// The switch was just turned on or off by the calling thread.
void mark(bool on);

// Notes that the calling thread records under the switch, where it is on, before any operator of it was called
// (a custom autograd function makes its node first). Cheap; models call it by ModuleScope.
void observe();

// How many operators the calling thread is within, one that calls another counted too; 1 in one that the program
// called.
[[nodiscard]] int depth();

// Whether anybody else observes the calling thread's operators (a profiler, a trace).
[[nodiscard]] bool others_watch();

// What the engine does before a backward from these tensors: refuses where a node of their graphs was recorded under
// the other setting of the switch. Tensors without a graph pass.
void check(const std::vector<at::Tensor>& roots);

}  // namespace isobit::aten::graph_check
