// Graphs and the switch: a graph recorded with the switch on raises when backward runs with it off, and the
// reverse.
//
// Every autograd node carries the thread that made it and a number that counts that thread's nodes. mark() notes
// where on the calling thread the switch was flipped; backward looks every node up before it runs any.
// Nodes of a thread that never saw the switch count as recorded with it off.
// The check is in the C++ engine (a Python process has another one, see docs/guard.md). Thread-safe.
#pragma once

namespace isobit::aten::graph_check {

// The switch was just turned on or off by the calling thread.
void mark(bool on);

// Notes on the calling thread that it records under the switch as it stands. Cheap; models call it by ModuleScope.
void observe();

}  // namespace isobit::aten::graph_check
