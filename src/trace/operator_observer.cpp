#include "trace/operator_observer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "archive/experiment_text.h"
#include "archive/sha256.h"
#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "trace/operand.h"
#include "trace/operator_arguments.h"

namespace isobit::trace {
namespace {

constexpr std::size_t kLongestArguments = 4096;

thread_local int depth = 0;  // of operators that the thread is within
thread_local bool in_optimizer = false;

Phase current_phase() {
  if (torch::autograd::get_current_node() != nullptr) return Phase::backward;
  if (in_optimizer) return Phase::optimizer;
  return at::GradMode::is_enabled() ? Phase::forward : Phase::evaluate;
}

// What all callbacks share. Threads of devices may call at the same time.
class Observation {
 public:
  explicit Observation(TraceWriter& writer)
      : writer_(writer),
        options_{writer.header().samples, writer.header().statistics},
        certified_(!archive::is_stock(writer.header().arithmetic)) {}

  void begin_step(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
    operators_ = 0;
    occurrences_.clear();
  }

  void end_step(const std::string& record) {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    writer_.end_step({step_, operators_, record});
  }

  // Never throws, as RecordFunction would swallow it.
  template <class Function>
  void guarded(const Function& function) noexcept {
    const at::DisableRecordFunctionGuard own_operators_are_not_watched;
    try {
      function();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  // The line with its inputs.
  std::unique_ptr<OperatorLine> begin(std::string name, std::string module, Phase phase, std::string arguments,
                                      const std::vector<Operand>& operands) {
    if (aten::OperatorSwitch::on() != certified_) {
      throw std::logic_error("the trace was begun " + std::string(certified_ ? "under isobit" : "under stock") +
                             ", but " + name + " was called " + (certified_ ? "outside of it" : "under isobit") +
                             " (turn the switch before the trace begins)");
    }
    auto line = std::make_unique<OperatorLine>();
    line->key = {0, phase, std::move(module), std::move(name), 0};
    {
      const std::lock_guard lock(mutex_);
      line->key.step = step_;
      line->key.occurrence = ++occurrences_[line->key];
    }
    if (arguments.size() > kLongestArguments) {
      arguments = arguments.substr(0, 200) + "... " + archive::sha256(arguments);
    }
    line->arguments = std::move(arguments);
    const std::string place = to_string(line->key);
    for (const Operand& operand : operands) {
      const std::string key = place + "/input/" + std::to_string(line->inputs.size());
      line->inputs.push_back(operand.use == Use::overwritten ? describe_without(operand.tensor, "overwritten")
                                                             : describe_operand(operand.tensor, key, options_));
    }
    return line;
  }

  void end(OperatorLine& line, const std::vector<Operand>& outputs, bool unwritten) {
    const std::string place = to_string(line.key);
    const std::string& wanted = writer_.header().values;
    const bool keep = !unwritten && (wanted == "all" || wanted == place);
    std::vector<KeptValues> kept;
    for (const auto& [tensor, use] : outputs) {
      const std::size_t index = line.outputs.size();
      const std::string key = place + "/output/" + std::to_string(index);
      line.outputs.push_back(unwritten ? describe_without(tensor, "never written")
                                       : describe_operand(tensor, key, options_));
      KeptValues values{values_name(line.key, index), "", {}, {}};
      if (keep && keep_operand(tensor, values)) kept.push_back(std::move(values));
    }
    const std::lock_guard lock(mutex_);
    if (error_) return;
    writer_.add(line);
    ++operators_;
    for (KeptValues& values : kept) writer_.keep(std::move(values));
  }

 private:
  TraceWriter& writer_;
  const OperandOptions options_;
  const bool certified_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::int64_t step_ = 0, operators_ = 0;
  std::map<OperatorKey, std::int64_t> occurrences_;
};

// There is one; callbacks are plain functions.
std::unique_ptr<Observation> observation;
std::optional<at::CallbackHandle> callback;
thread_local bool watched = false;

// "net.a.fc": the submodules of a TorchScript module whose graph calls the operator; "" where no graph does. The
// interpreter says "TOP(Net)::forward", "a(Block)::forward", a method of the same module as "SELF(Block)::more", and
// functions as "CALL_FUNCTION::relu()::relu".
std::string script_path() {
  std::string path;
  for (const std::string& frame : torch::jit::currentModuleHierarchy()) {
    const std::string name = frame.substr(0, frame.find('('));
    if (name.empty() || name == "TOP" || name == "SELF" || name.starts_with("CALL_FUNCTION")) continue;
    path += (path.empty() ? "" : ".") + name;
  }
  return path;
}

// An operator that an interpreter calls comes with all of the interpreter's stack: its own values are the last ones.
using Values = std::span<const c10::IValue>;
Values own_values(Values stack, std::size_t own) { return stack.last(std::min(own, stack.size())); }
Values inputs_of(const at::RecordFunction& call) {
  const Values all(call.inputs().data(), call.inputs().size());
  const auto schema = call.operator_schema();
  return schema ? own_values(all, schema->arguments().size()) : all;
}
Values outputs_of(const at::RecordFunction& call) {
  const Values all(call.outputs().data(), call.outputs().size());
  const auto schema = call.operator_schema();
  return schema ? own_values(all, schema->returns().size()) : all;
}

struct Call : at::ObserverContext {
  std::unique_ptr<OperatorLine> line;
  std::optional<aten::ModulePosition> entered;  // the submodule of a graph
  bool unwritten = false;
};

// The engine's own marks ("autograd::engine::evaluate_function: ...") have no operator.
bool is_operator(const at::RecordFunction& call) { return call.operator_name().has_value(); }

std::string name_of(const at::RecordFunction& call) {
  const c10::OperatorName name = call.operator_name().value();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

void read_inputs(const at::RecordFunction& call, Call& context) {
  const std::string name = name_of(call);
  // While the operator runs, so that the nodes of autograd that it records are the submodule's, too.
  if (const std::string within = script_path(); !within.empty() && torch::autograd::get_current_node() == nullptr)
    context.entered = aten::enter_module(within);
  const OperatorTraits& traits = traits_of(call, name);
  context.unwritten = traits.leaves_unwritten;
  std::string arguments;
  std::vector<Operand> operands;
  const Values inputs = inputs_of(call);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i > 0) arguments += ',';
    const bool overwritten = i < traits.overwritten.size() && traits.overwritten[i];
    append_argument(inputs[i], overwritten ? Use::overwritten : Use::read, arguments, operands);
  }
  context.line = observation->begin(name, aten::current_module(), current_phase(), std::move(arguments), operands);
}

std::unique_ptr<at::ObserverContext> before_call(const at::RecordFunction& call) {
  auto context = std::make_unique<Call>();
  if (!is_operator(call) || ++depth > 1) return context;
  observation->guarded([&] { read_inputs(call, *context); });
  return context;
}

void after_call(const at::RecordFunction& call, at::ObserverContext* context) {
  if (!is_operator(call)) return;
  if (depth > 0) --depth;
  auto* ended = static_cast<Call*>(context);
  if (ended != nullptr && ended->entered) aten::leave_module(*ended->entered);
  if (ended == nullptr || !ended->line || !observation) return;
  observation->guarded([&] {
    std::string ignored;
    std::vector<Operand> outputs;
    for (const c10::IValue& output : outputs_of(call)) append_argument(output, Use::read, ignored, outputs);
    observation->end(*ended->line, outputs, ended->unwritten);
  });
}

struct Within {
  Within() { ++depth; }
  ~Within() { --depth; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
};

void stop_watching() {
  if (callback) at::removeCallback(*callback);
  callback.reset();
  watched = false;
}

}  // namespace

OperatorObserver::OperatorObserver(TraceWriter& writer) {
  if (observation) throw std::logic_error("a trace is being made already: one at a time");
  observation = std::make_unique<Observation>(writer);
}

OperatorObserver::~OperatorObserver() {
  stop_watching();
  observation.reset();
}

void OperatorObserver::begin_step(std::int64_t step) {
  observation->begin_step(step);
  if (callback) return;
  depth = 0;
  callback = at::addThreadLocalCallback(at::RecordFunctionCallback(before_call, after_call)
                                            .needsInputs(true)
                                            .needsOutputs(true)
                                            .scopes({at::RecordScope::FUNCTION}));
  watched = true;
}

void OperatorObserver::end_step(const std::string& record) {
  stop_watching();
  observation->end_step(record);
}

OptimizerPhase::OptimizerPhase() : before_(std::exchange(in_optimizer, true)) {}
OptimizerPhase::~OptimizerPhase() { in_optimizer = before_; }

bool observing() { return watched; }

void observed(const char* name, const std::string& module, const std::string& arguments,
              const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
              const std::function<void()>& work) {
  if (!observing()) return work();
  const auto operands = [](const std::vector<at::Tensor>& tensors) {
    std::vector<Operand> list;
    for (const at::Tensor& tensor : tensors) list.push_back({tensor, Use::read});
    return list;
  };
  std::unique_ptr<OperatorLine> line;
  observation->guarded([&] { line = observation->begin(name, module, current_phase(), arguments, operands(inputs)); });
  {
    const Within its_operators_are_nested;
    work();
  }
  if (line) observation->guarded([&] { observation->end(*line, operands(outputs), false); });
}

}  // namespace isobit::trace
