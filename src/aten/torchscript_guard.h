// TorchScript under the switch: what its interpreter would execute beside the dispatcher is refused, and it executes
// the graphs as they were written.
//
// Two layers. The operators themselves: guard_script_operators() puts a question before the stock code of each one that
// may not run (torchscript_operators.h). Every way into the interpreter (a call, a fork, an interface, a graph that was
// changed, constants folded by the compiler, torch.ops) takes the operator's code from there when it compiles, so none
// goes around it. What was compiled before holds copies of the stock code; ScriptCheck throws such plans away, looks
// at the whole graph before any of it runs, and names the place in the source.
#pragma once

#include <torch/csrc/jit/api/compilation_unit.h>

#include <memory>
#include <optional>
#include <string>

namespace isobit::aten {

// From now on operators of the interpreter ask the switch. Again for those that a library has registered since. For
// the process; some milliseconds the first time. No script may be compiled meanwhile.
void guard_script_operators();

// While it lives, no plan is optimised for what earlier calls brought (stock rewrites a graph after its second call,
// with other operators and gradients) and no fuser makes kernels. Held by the switch; the settings before come back.
class ScriptsAsWritten {
 public:
  ScriptsAsWritten();
  ~ScriptsAsWritten();
  ScriptsAsWritten(const ScriptsAsWritten&) = delete;
  ScriptsAsWritten& operator=(const ScriptsAsWritten&) = delete;

 private:
  struct Settings {
    bool profiling, executor, tensor_expressions, on_cpu, on_gpu, on_cpu_legacy;
  };
  static void set(const Settings& settings);

  Settings before_;
};

// Something in a script that may not run under the switch.
struct Forbidden {
  std::string what;    // "aten::exp.float"
  std::string place;   // "net.py:12:8 (TorchScript, Net.forward)"
  std::string remedy;  // beside running it outside isobit
};

// The first in the graphs of a function and of what it calls, or of all functions of a unit (a file's). Methods behind
// an interface are known only when they are called: the operators' own question is left for them.
[[nodiscard]] std::optional<Forbidden> find_forbidden(torch::jit::Function& function);
[[nodiscard]] std::optional<Forbidden> find_forbidden(const torch::jit::CompilationUnit& unit);

// To be called before each call of a script from outside. Under the switch it refuses what find_forbidden() finds and
// drops plans that were compiled without the switch; a function is looked at once, then it costs under a microsecond.
// Without the switch it does nothing. unit: the function's own; null where it has none. Thread-safe.
void check_script(torch::jit::Function& function, const std::shared_ptr<torch::jit::CompilationUnit>& unit);

// Drops the plans of a unit's functions: the next call compiles them again. The switch does so, going off, for the
// units that check_script() saw. No other thread may run a script of it meanwhile.
void forget_plans(const torch::jit::CompilationUnit& unit);

// Gives back the memory of dropped plans, which a script may have been running when the switch was turned within it. To
// be called where no script runs.
void release_plans();

}  // namespace isobit::aten
