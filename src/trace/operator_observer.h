// Watches the outermost operators that a thread calls, stock or isobit's, and writes them into a trace.
//
// Built on at::RecordFunction: what the dispatcher calls is seen, whoever calls it, Python or C++, forward or in a node
// of backward. Inputs are read when an operator is called, outputs when it is done; no tensor is held in between, so
// that nothing the program decides by reference counts changes. The watched thread is the one that makes the object,
// with the threads that autograd starts for it (devices). Work that is no operator of PyTorch tells itself by
// observed(). Not seen: what compiled graphs do inside, and operators within operators.
//
// RecordFunction swallows what an observer throws: the first error is kept, and end_step() throws it.
// One object at a time in a process (std::logic_error), made, told and destroyed on one thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trace/trace_file.h"

namespace isobit::trace {

class OperatorObserver {
 public:
  // Nothing is watched before begin_step. `writer` outlives the object; its header says what is kept.
  explicit OperatorObserver(TraceWriter& writer);
  OperatorObserver(const OperatorObserver&) = delete;
  OperatorObserver& operator=(const OperatorObserver&) = delete;
  ~OperatorObserver();

  // From here operators belong to this step.
  void begin_step(std::int64_t step);
  // Until the next begin_step nothing is watched. Throws what went wrong meanwhile; then the step is not in the trace
  // and the trace is not to be finished. `record`: as in StepEnd.
  void end_step(const std::string& record = {});
};

// While it lives, the calling thread's operators count to the optimizer.
class OptimizerPhase {
 public:
  OptimizerPhase();
  ~OptimizerPhase();
  OptimizerPhase(const OptimizerPhase&) = delete;
  OptimizerPhase& operator=(const OptimizerPhase&) = delete;

 private:
  bool before_;
};

// Whether an observer watches the calling thread now.
[[nodiscard]] bool observing();
// Does the work, which is no operator of PyTorch, and writes it into the trace as one where observing().
void observed(const char* name, const std::string& module, const std::string& arguments,
              const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
              const std::function<void()>& work);

}  // namespace isobit::trace
