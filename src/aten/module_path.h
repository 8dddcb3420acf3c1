// Where in a model the calling thread is: the names that refusals show.
//
// Models push a name per module while it runs forward (`ModuleScope scope("head")`), the loop says the step.
// Backward has no modules: the path of the forward call is found through the autograd node that runs, whose
// number falls into the range that its module recorded; the log is kept per thread until the next step.
// Thread-safe; a scope costs well under a microsecond.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isobit::aten {

// A module within the modules around it. One for each path, for good.
struct ModulePlace;
// Where a thread is: the place, and which object it is within there; 0 where modules are names alone.
struct ModulePosition {
  ModulePlace* place;
  std::uint64_t object;
};

// The calling thread is within the module `name` from here until leave_module is given the returned value, or that of
// a module around it. A thread may end within one.
[[nodiscard]] ModulePosition enter_module(std::string_view name);
void leave_module(const ModulePosition& around);

// The same for modules that are objects, by a number that is theirs while they live: their names are said once.
// enter_known_module: false, and nothing has changed, where the module has not been entered from here.
[[nodiscard]] bool enter_known_module(std::uint64_t module, ModulePosition& around);
[[nodiscard]] ModulePosition enter_new_module(std::uint64_t module, std::string_view name);
void forget_module(std::uint64_t module);

class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name) : around_(enter_module(name)) {}
  ~ModuleScope() { leave_module(around_); }
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  ModulePosition around_;
};

// The calling thread begins this step: shown in refusals; the previous step's log is dropped. Negative: no step.
// Throws where a library has replaced a kernel under the switch (check_kernels_in_turn, guard.h).
void begin_step(std::int64_t step);

// "model.head": the path of the modules that the calling thread is within, in backward of those whose forward recorded
// the node that runs; "" outside of any.
[[nodiscard]] std::string current_module();

// "model.head.activation (step 1, forward)", "model.head (step 1, backward of AddmmBackward0)"; outside of any module
// "step 1", "backward of AddmmBackward0 (step 1)"; empty where there is nothing to say.
[[nodiscard]] std::string current_place();

}  // namespace isobit::aten
