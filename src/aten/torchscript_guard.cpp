#include "aten/torchscript_guard.h"

#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/codegen/fuser/interface.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "aten/check_mode.h"
#include "aten/operator_switch.h"
#include "aten/refusal.h"
#include "aten/torchscript_operators.h"

namespace isobit::aten {
namespace {

using torch::jit::Node;
using torch::jit::Operation;
using torch::jit::OperationCreator;
using torch::jit::Operator;
using torch::jit::Stack;

namespace detail {
// An explicit instantiation may name a private member (dispatcher_entry.h): the operator's code alone is replaced, its
// schema stays where nodes point to.
template <auto member>
struct Reveal {
  friend auto operator_body() { return member; }
};
auto operator_body();
template struct Reveal<&Operator::op_>;
}  // namespace detail

// The code of an operator without an entry in the dispatcher; null of the others.
std::variant<Operation, OperationCreator>* code_of(Operator& op) {
  auto* own = std::get_if<1>(&(op.*detail::operator_body()));
  return own ? &own->op_ : nullptr;
}

std::string full_name(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
}

constexpr const char* kElsewhere = ", or run this part outside isobit (with isobit.disabled():)";
constexpr const char* kComplex = "aten::mul.complex";

struct Guarded {
  ScriptRule rule = ScriptRule::refused;
  std::string name;
  std::size_t arguments = 0;

  void check(const Stack& stack) const {
    if (!OperatorSwitch::on()) return;
    if (rule == ScriptRule::refused) refuse(name, "is not certified", script_remedy(name) + kElsewhere);
    for (std::size_t i = stack.size() - std::min(arguments, stack.size()); i < stack.size(); ++i) {
      if (rule == ScriptRule::real && stack[i].isComplexDouble()) {
        refuse(name, "is not certified for complex numbers", script_remedy(kComplex) + kElsewhere);
      }
      if (rule == ScriptRule::fits && stack[i].isDouble() && !fits(stack[i].toDouble())) {
        refuse(name, "of a number that no integer holds is not certified", c10::str("clamp it before", kElsewhere));
      }
    }
  }
  static bool fits(double value) { return value >= -0x1p63 && value < 0x1p63; }
};

Operation with_question(Operation stock, Guarded guarded) {
  return [stock = std::move(stock), guarded = std::move(guarded)](Stack& stack) mutable {
    check_mode::or_note([&] { guarded.check(stack); });
    stock(stack);
  };
}

std::mutex mutex;

// Operators whose code depends on the node: the stock creator, and what to ask. Never destroyed: scripts may run while
// the process ends.
struct Creator {
  OperationCreator stock;
  Guarded guarded;
};
auto& creators = *new std::unordered_map<const Operator*, Creator>;
// Kept, so that no later operator gets the address of one that a library took back.
auto& asked = *new std::unordered_set<std::shared_ptr<Operator>>;

Operation create_with_question(const Node* node) {
  const std::lock_guard lock(mutex);
  const Creator& creator = creators.at(&node->getOperator());
  return with_question(creator.stock(node), creator.guarded);
}

// A differentiable graph stands only in optimised plans, and its own nodes ask; PyTorch knows it by its code's type.
bool is_known_by_type(const std::string& name) { return name == "prim::DifferentiableGraph"; }

void ask_before(const std::shared_ptr<Operator>& op) {
  auto* code = code_of(*op);
  if (!code || !asked.insert(op).second) return;
  const c10::FunctionSchema& schema = op->schema();
  Guarded guarded{ScriptRule::refused, full_name(schema), schema.arguments().size()};
  guarded.rule = script_rule(guarded.name);
  if (guarded.rule == ScriptRule::allowed || is_known_by_type(guarded.name)) return;
  if (auto* creator = std::get_if<OperationCreator>(code)) {
    creators.emplace(op.get(), Creator{*creator, std::move(guarded)});
    *creator = create_with_question;
  } else {
    *code = with_question(std::get<Operation>(*code), std::move(guarded));
  }
}

}  // namespace

void guard_script_operators() {
  const auto operators = torch::jit::getAllOperators();
  const std::lock_guard lock(mutex);
  for (const std::shared_ptr<Operator>& op : operators) ask_before(op);
}

}  // namespace isobit::aten
