// Every composite on the list gets its floats from certified and exact operators, and from nowhere else.
//
// Two things are shown per overload, on samples, under the switch: its children are of the other classes (or the
// guard would throw), and the memory of each floating result was written by such a child, not by the composite.
#include "aten/composite_operators.h"

#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/record_function.h>

#include "aten/classification.h"
#include "aten/exact_operators.h"
#include "aten/operator_switch.h"
#include "hostile_samples.h"

namespace isobit::aten {
namespace {

using test::Values;

struct Observed {
  std::string self;               // the composite under test
  std::set<const void*> written;  // memory that a child wrote
  std::set<std::string> refused;  // children that should not be there
};
thread_local Observed observed;

// Views and allocations write nothing, whatever they return.
bool writes(const c10::OperatorName& op, const std::string& name) {
  const OperatorClass kind = classify(op.name, op.overload_name).kind;
  if (kind != OperatorClass::exact) return kind == OperatorClass::certified;
  const ExactOperator* exact = find_exact(name);
  const std::string_view reason = exact->reason;
  return !reason.starts_with("view:") && !reason.starts_with("allocates") && !reason.starts_with("another memory") &&
         !reason.starts_with("describes");
}

void note_memory(const c10::IValue& value, std::set<const void*>& memory) {
  if (value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage()) {
    memory.insert(value.toTensor().storage().data());
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) note_memory(element, memory);
  }
}

std::string name_of(const at::RecordFunction& function) {
  const auto op = function.operator_name();
  if (!op) return function.name();
  return op->overload_name.empty() ? op->name : op->name + "." + op->overload_name;
}

void on_return(const at::RecordFunction& function, at::ObserverContext*) {
  const std::string name = name_of(function);
  if (name == observed.self) return;
  const auto op = function.operator_name();
  if (!op) return;
  if (classify(op->name, op->overload_name).kind == OperatorClass::refused) observed.refused.insert(name);
  if (!writes(*op, name)) return;
  for (const c10::IValue& output : function.outputs()) note_memory(output, observed.written);
}

class Observer {
 public:
  Observer() {
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(
            [](const at::RecordFunction&) -> std::unique_ptr<at::ObserverContext> { return nullptr; }, &on_return)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION}));
  }
  ~Observer() { at::removeCallback(handle_); }
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

 private:
  at::CallbackHandle handle_;
};

bool mutates(const std::string& name) {
  for (const c10::Argument& argument : test::find_operator(name).schema().arguments()) {
    if (argument.alias_info() && argument.alias_info()->isWrite()) return true;
  }
  return false;
}

// Says what is wrong; empty where nothing is.
std::string judge(const std::string& name, const Values& inputs, const Values& results) {
  if (!observed.refused.empty()) return name + " calls " + *observed.refused.begin();
  std::set<const void*> allowed = observed.written;
  if (!mutates(name)) {
    for (const c10::IValue& input : inputs) note_memory(input, allowed);
  }
  std::vector<c10::IValue> open(results.begin(), results.end());
  while (!open.empty()) {
    const c10::IValue value = open.back();
    open.pop_back();
    if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) open.push_back(element);
      continue;
    }
    if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().numel() == 0) continue;
    if (!c10::isFloatingType(value.toTensor().scalar_type())) continue;
    if (!allowed.count(value.toTensor().storage().data())) return name + " writes a result by itself";
  }
  return {};
}

bool is_certified(std::string_view full_name) {
  const std::size_t dot = full_name.find('.');
  const std::string_view overload = dot == full_name.npos ? std::string_view() : full_name.substr(dot + 1);
  return classify(full_name.substr(0, dot), overload).kind == OperatorClass::certified;
}

// "" where judged well; else why not. *called says whether any sample was accepted.
std::string examine(const std::string& name, bool* called) {
  std::string first_error;
  for (const at::ScalarType type : {at::kFloat, at::kLong, at::kBool}) {
    for (const at::ScalarType out : {type, at::kBool, at::kLong}) {
      try {
        const Values sample = test::sample_of(name, type, out, test::kFewSide);
        observed = Observed{name, {}, {}};
        const Observer observer;
        const Values results = test::call_operator(name, sample);
        *called = true;
        return judge(name, sample, results);
      } catch (const c10::Error& refused) {
        const std::string error = refused.what_without_backtrace();
        if (first_error.empty()) first_error = error.substr(0, error.find('\n'));
      }
    }
  }
  return name + ": " + first_error;
}

TEST(Composite, FloatsComeFromCertifiedAndExactOperatorsOnly) {
  const OperatorSwitch on;
  int judged = 0;
  for (const std::string_view name : composite_operators()) {
    bool called = false;
    const std::string problem = examine(std::string(name), &called);
    if (!problem.empty()) ADD_FAILURE() << problem;
    judged += called;
  }
  EXPECT_GT(judged, 300);
}

TEST(Composite, ListHasNoNameTwiceAndNoneOfAnotherClass) {
  const auto& all = composite_operators();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) {
      EXPECT_NE(all[i - 1], all[i]);
    }
    EXPECT_FALSE(is_certified(all[i])) << all[i];
    EXPECT_EQ(find_exact(all[i]), nullptr) << all[i];
  }
}

// The observer sees through a composite that computes: the test could fail.
at::Tensor raw(const at::Tensor& x) {
  at::Tensor y = at::empty_like(x);
  y.data_ptr<float>()[0] = x.data_ptr<float>()[0] * 3;
  return y;
}

TEST(Composite, ObserverSeesRawComputing) {
  observed = Observed{"test::raw", {}, {}};
  const at::Tensor x = at::ones({4});
  at::Tensor y;
  {
    const Observer observer;
    y = raw(x);
  }
  EXPECT_EQ(observed.written.count(y.storage().data()), 0u);
  {
    const Observer observer;
    y = at::mul(x, x);
  }
  EXPECT_EQ(observed.written.count(y.storage().data()), 1u);
}

}  // namespace
}  // namespace isobit::aten
