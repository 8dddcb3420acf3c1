// The second layer of torchscript_guard.h: graphs before they run, and the plans made from them.
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/codegen/fuser/interface.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/graph_fuser.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "aten/check_mode.h"
#include "aten/operator_switch.h"
#include "aten/refusal.h"
#include "aten/torchscript_guard.h"
#include "aten/torchscript_operators.h"

namespace isobit::aten {
namespace {

using torch::jit::Block;
using torch::jit::CompilationUnit;
using torch::jit::Function;
using torch::jit::Graph;
using torch::jit::GraphExecutor;
using torch::jit::GraphFunction;
using torch::jit::Node;
namespace attr = torch::jit::attr;
namespace prim = torch::jit::prim;

namespace detail {
template <auto member>
struct Reveal {
  friend auto executors_of_function() { return member; }
};
auto executors_of_function();
template struct Reveal<&GraphFunction::executors_>;
}  // namespace detail

std::string printable(const std::string& text) {
  std::string result;
  for (const unsigned char character : text) {
    if (character >= ' ' && character < 0x7f) {
      result += static_cast<char>(character);
    } else {
      constexpr const char* kDigits = "0123456789abcdef";
      result += c10::str("\\x", kDigits[character >> 4], kDigits[character & 15]);
    }
  }
  return result;
}

std::string place_of(const Node& node, const Function& function) {
  torch::jit::SourceRange range = node.sourceRange();
  // Of a file: the line of the source that the file was made from, where the file tells.
  if (const auto original = range.findSourceRangeThatGenerated()) range = *original;
  const std::string within = "TorchScript, " + function.qualname().name();
  if (const auto where = range.file_line_col()) {
    const auto& [file, line, column] = *where;
    return printable(c10::str(file, ":", line, ":", column + 1, " (", within, ")"));
  }
  return printable(within);
}

// A graph's nodes and what they call, each function once.
class Walk {
 public:
  std::optional<Forbidden> from(Function& root) {
    add(root);
    while (!pending_.empty()) {
      Function& function = *pending_.back();
      pending_.pop_back();
      function.ensure_defined();
      if (auto found = block(*torch::jit::toGraphFunction(function).graph()->block(), function)) return found;
    }
    return {};
  }
  [[nodiscard]] const std::unordered_set<Function*>& seen() const { return seen_; }

 private:
  void add(Function& function) {
    if (seen_.insert(&function).second) pending_.push_back(&function);
  }

  std::optional<Forbidden> block(const Block& nodes, const Function& function) {
    for (const Node* node : nodes.nodes()) {
      if (auto found = visit(*node, function)) return found;
    }
    return {};
  }

  std::optional<Forbidden> visit(const Node& node, const Function& function) {
    const torch::jit::Operator* op = node.maybeOperator();
    if (!op || !op->isC10Op()) {
      const std::string name = op ? c10::toString(op->schema().operator_name()) : node.kind().toQualString();
      if (script_rule(name) == ScriptRule::refused)
        return Forbidden{name, place_of(node, function), script_remedy(name)};
    }
    if (auto found = callee(node, function)) return found;
    for (const Block* within : node.blocks()) {
      if (auto found = block(*within, function)) return found;
    }
    for (const c10::Symbol name : node.attributeNames()) {
      if (node.kindOf(name) == torch::jit::AttributeKind::g) {
        if (auto found = block(*node.g(name)->block(), function)) return found;
      } else if (node.kindOf(name) == torch::jit::AttributeKind::gs) {
        for (const auto& graph : node.gs(name)) {
          if (auto found = block(*graph->block(), function)) return found;
        }
      }
    }
    return {};
  }

  // What a node calls is to be looked at, too. A method of a class that a library wrote in C++ has no graph.
  std::optional<Forbidden> callee(const Node& node, const Function& function) {
    Function* called = nullptr;
    if (node.kind() == prim::CallFunction) {
      if (const auto type = node.input(0)->type()->cast<c10::FunctionType>()) called = type->function();
    } else if (node.kind() == prim::CallMethod) {
      if (const auto type = node.input(0)->type()->cast<c10::ClassType>())
        called = type->findMethod(node.s(attr::name));
    }
    if (!called) return {};
    if (called->isGraphFunction()) {
      add(*called);
      return {};
    }
    return Forbidden{printable("prim::CallMethod of " + called->qualname().qualifiedName()), place_of(node, function),
                     "write it with operators on tensors"};
  }

  std::vector<Function*> pending_;
  std::unordered_set<Function*> seen_;
};

// ---- plans

std::mutex mutex;
struct Known {
  // Functions that were looked at since the switch went on. An address may be used again: the graph tells.
  std::unordered_map<const Function*, std::weak_ptr<Graph>> functions;
  std::unordered_map<const CompilationUnit*, std::weak_ptr<CompilationUnit>> units;
  std::vector<GraphExecutor> dropped;  // a script up the stack may be running one
};
Known& known() {
  static auto& state = *new Known;
  return state;
}

void forget_plans(Function& function) {
  auto* script = torch::jit::tryToGraphFunction(function);
  if (!script) return;
  for (auto& executor : script->*detail::executors_of_function()) {
    if (executor) known().dropped.push_back(std::move(*executor));
    executor.reset();
  }
  script->clear_optimized_graphs();
}

void forget_unit(const CompilationUnit& unit) {
  for (Function* function : unit.get_functions()) {
    if (function) forget_plans(*function);
  }
}

[[noreturn]] void refuse(const Forbidden& found) {
  refuse_at(found.place, found.what, "is not certified",
            found.remedy + ", or run this part outside isobit (with isobit.disabled():)");
}

// A method that a library wrote in C++, called from Python. Copying and saving such objects computes nothing.
void refuse_foreign(const Function& function) {
  const std::string name = function.qualname().name();
  if (name.starts_with("__") || !function.qualname().qualifiedName().starts_with("__torch__.torch.classes.")) return;
  aten::refuse("prim::CallMethod of " + function.qualname().qualifiedName(), "is not certified",
               "do without this class, or run this part outside isobit (with isobit.disabled():)");
}

void look_at(Function& function, const std::shared_ptr<CompilationUnit>& unit) {
  Walk walk;
  if (const auto found = walk.from(function)) check_mode::or_note([&] { refuse(*found); });
  // Before the first run under the switch: no thread is within these functions unless it came another way.
  if (unit && known().units.emplace(unit.get(), unit).second) forget_unit(*unit);
  for (Function* reached : walk.seen()) {
    const auto graph = torch::jit::toGraphFunction(*reached).graph();
    if (known().functions.insert_or_assign(reached, graph).second) forget_plans(*reached);
  }
}

}  // namespace

std::optional<Forbidden> find_forbidden(Function& function) { return Walk().from(function); }

std::optional<Forbidden> find_forbidden(const CompilationUnit& unit) {
  for (Function* function : unit.get_functions()) {
    if (!function || !function->isGraphFunction()) continue;
    if (auto found = find_forbidden(*function)) return found;
  }
  return {};
}

void check_script(Function& function, const std::shared_ptr<CompilationUnit>& unit) {
  if (!OperatorSwitch::on()) return;
  if (!function.isGraphFunction()) return check_mode::or_note([&] { refuse_foreign(function); });
  torch::jit::getProfilingMode() = false;  // whatever was set since
  torch::jit::getExecutorMode() = true;
  if (!torch::jit::IsNewExecutorEnabled()) {
    check_mode::or_note([] {
      aten::refuse("torch.jit by its older executor", "is not certified", "unset TORCH_JIT_DISABLE_NEW_EXECUTOR");
    });
  }
  const std::lock_guard lock(mutex);
  const auto before = known().functions.find(&function);
  if (before != known().functions.end() && !before->second.expired() &&
      before->second.lock() == torch::jit::toGraphFunction(function).graph()) {
    return;
  }
  look_at(function, unit);
}

void forget_plans(const CompilationUnit& unit) {
  const std::lock_guard lock(mutex);
  forget_unit(unit);
}

void release_plans() {
  std::vector<GraphExecutor> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex);
  dropped.swap(known().dropped);
}

void ScriptsAsWritten::set(const Settings& settings) {
  torch::jit::getProfilingMode() = settings.profiling;
  torch::jit::getExecutorMode() = settings.executor;
  torch::jit::setTensorExprFuserEnabled(settings.tensor_expressions);
  torch::jit::overrideCanFuseOnCPU(settings.on_cpu);
  torch::jit::overrideCanFuseOnGPU(settings.on_gpu);
  torch::jit::overrideCanFuseOnCPULegacy(settings.on_cpu_legacy);
}

ScriptsAsWritten::ScriptsAsWritten() {
  guard_script_operators();
  before_ = {torch::jit::getProfilingMode(), torch::jit::getExecutorMode(), torch::jit::tensorExprFuserEnabled(),
             torch::jit::canFuseOnCPU(),     torch::jit::canFuseOnGPU(),    torch::jit::canFuseOnCPULegacy()};
  // The profiling executor with profiling off compiles what was written. The older executor optimises all the same.
  set({false, true, false, false, false, false});
}

ScriptsAsWritten::~ScriptsAsWritten() {
  set(before_);
  const std::lock_guard lock(mutex);
  // Stock optimises again: an executor keeps the kind that it was made as.
  for (const auto& [address, unit] : known().units) {
    if (const auto alive = unit.lock()) forget_unit(*alive);
  }
  known().functions.clear();
  known().units.clear();
}

}  // namespace isobit::aten
