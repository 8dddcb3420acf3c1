// The list of what TorchScript's interpreter may execute, against the operators that this PyTorch has.
#include "aten/torchscript_operators.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace isobit::aten {
namespace {

// Full names of the operators that the dispatcher does not know.
const std::set<std::string>& interpreter_operators() {
  static const auto names = [] {
    std::set<std::string> found;
    for (const auto& op : torch::jit::getAllOperators()) {
      if (!op->isC10Op()) found.insert(c10::toString(op->schema().operator_name()));
    }
    return found;
  }();
  return names;
}

// Nodes that the interpreter executes without an operator; "fork" and others are compiled into instructions.
bool has_no_operator(std::string_view entry) {
  static const std::set<std::string_view> kinds = {"prim::Param",
                                                   "prim::Return",
                                                   "prim::If",
                                                   "prim::Loop",
                                                   "prim::CallFunction",
                                                   "prim::CallMethod",
                                                   "prim::Function",
                                                   "prim::Closure",
                                                   "prim::fork",
                                                   "prim::forkClosure",
                                                   "prim::awaitable",
                                                   "prim::awaitableClosure",
                                                   "prim::Store",
                                                   "prim::Load",
                                                   "prim::Drop",
                                                   "prim::Enter",
                                                   "prim::Exit",
                                                   "prim::TracedFork",
                                                   "prim::TracedAttr",
                                                   "prim::TracedModuleForward",
                                                   "prim::annotate",
                                                   "prim::isinstance",
                                                   "prim::tolist",
                                                   "prim::SetAttr",
                                                   "prim::HasAttr",
                                                   "prim::GetAttr",
                                                   "prim::CreateObject",
                                                   "prim::Constant",
                                                   "prim::ListConstruct",
                                                   "prim::ListUnpack",
                                                   "prim::DictConstruct",
                                                   "prim::TupleConstruct",
                                                   "prim::TupleSlice",
                                                   "prim::PythonOp"};
  return kinds.contains(entry);
}

TEST(TorchScriptOperators, EveryEntryNamesSomething) {
  for (const std::string_view entry : script_entries()) {
    if (has_no_operator(entry)) continue;
    const bool every = entry.ends_with(".*");
    const std::string name(every ? entry.substr(0, entry.size() - 2) : entry);
    const auto& known = interpreter_operators();
    const bool found = known.contains(name) ||
                       (every && std::any_of(known.begin(), known.end(),
                                             [&](const std::string& op) { return op.starts_with(name + "."); }));
    EXPECT_TRUE(found) << entry;
  }
}

TEST(TorchScriptOperators, WhatALibraryComputesIsRefused) {
  for (const char* name : {"exp",  "expm1", "log",    "log10", "log1p",   "sin",     "cos",   "tan",   "asin",
                           "acos", "atan",  "sinh",   "cosh",  "tanh",    "asinh",   "acosh", "atanh", "erf",
                           "erfc", "gamma", "lgamma", "angle", "degrees", "radians", "polar", "atan2", "pow"}) {
    std::size_t overloads = 0;
    for (const std::string& op : interpreter_operators()) {
      if (op != "aten::" + std::string(name) && !op.starts_with("aten::" + std::string(name) + ".")) continue;
      ++overloads;
      EXPECT_EQ(script_rule(op), ScriptRule::refused) << op;
    }
    EXPECT_GT(overloads, 0U) << name;
  }
}

TEST(TorchScriptOperators, FilesSeedsMachinesAndFusersAreRefused) {
  for (const char* name : {"aten::save",
                           "aten::manual_seed",
                           "aten::manual_seed.generator",
                           "aten::seed",
                           "aten::Generator",
                           "prim::id",
                           "aten::hash.generic",
                           "prim::TimePoint",
                           "aten::_get_cpu_capability",
                           "prim::AddStatValue",
                           "prim::TensorExprGroup",
                           "prim::FusionGroup",
                           "prim::CudaFusionGroup",
                           "prim::DifferentiableGraph",
                           "prim::MKLDNNLayerNorm",
                           "prim::mkldnn_convolution",
                           "prim::StaticSubgraph",
                           "aten::mul.complex",
                           "aten::div.complex",
                           "aten::sqrt.complex",
                           "prim::abs.complex",
                           "aten::pow.int_to_int",
                           "aten::sort.float",
                           "aten::sort.any",
                           "mine::operator",
                           "aten::",
                           ""}) {
    EXPECT_EQ(script_rule(name), ScriptRule::refused) << name;
  }
}

// With an entry for every overload a later PyTorch could bring in one that computes: of this one's none does so on
// complex numbers, whose products and quotients are several operations.
TEST(TorchScriptOperators, ComplexArithmeticIsSumsAlone) {
  const std::set<std::string> sums = {"aten::add", "aten::sub", "aten::neg", "aten::sum"};
  for (const auto& op : torch::jit::getAllOperators()) {
    if (op->isC10Op() || op->schema().returns().size() != 1) continue;
    if (op->schema().returns()[0].type()->kind() != c10::TypeKind::ComplexType) continue;
    const std::string name = c10::toString(op->schema().operator_name());
    if (script_rule(name) == ScriptRule::refused) continue;
    const bool is_conversion = name.starts_with("aten::Complex");
    EXPECT_TRUE(is_conversion || sums.contains(op->schema().name())) << name;
  }
}

TEST(TorchScriptOperators, RemediesSayWhatToDo) {
  EXPECT_NE(script_remedy("aten::exp.float").find("as a tensor"), std::string::npos);
  EXPECT_NE(script_remedy("aten::save").find("leave it out"), std::string::npos);
  EXPECT_NE(script_remedy("aten::manual_seed").find("isobit.seed"), std::string::npos);
  EXPECT_NE(script_remedy("prim::TensorExprGroup").find("again"), std::string::npos);
}

}  // namespace
}  // namespace isobit::aten
