#include "trace/operator_observer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <optional>

#include "archive/small_run.h"
#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "trace/tensor_fingerprint.h"
#include "trace/trace_environment.h"

namespace isobit::trace {
namespace {

using archive::Scratch;

// A step of a small network: views, an operator in place, a composite, backward, and an update without gradients.
at::Tensor step(at::Tensor& weight, at::Tensor& bias, bool observe_optimizer = true) {
  const at::Tensor x = at::arange(12, at::kFloat).reshape({3, 4}).div(7);
  at::Tensor loss;
  {
    const aten::ModuleScope model("model"), layer("fc");
    loss = at::linear(x, weight, bias).tanh_().sum();
  }
  loss.backward();
  const at::NoGradGuard no_grad;
  std::optional<OptimizerPhase> phase;
  if (observe_optimizer) phase.emplace();
  weight.sub_(weight.grad(), 0.5);
  bias.sub_(bias.grad(), 0.5);
  weight.mutable_grad() = at::Tensor();
  bias.mutable_grad() = at::Tensor();
  return loss.detach();
}

struct Net {
  at::Tensor weight = at::arange(8, at::kFloat).reshape({2, 4}).sub(4).div(9).requires_grad_();
  at::Tensor bias = at::ones({2}).requires_grad_();
};

std::string trained(Net net, int steps) {
  for (int i = 0; i < steps; ++i) step(net.weight, net.bias);
  return kernels::to_hex(fingerprint(net.weight));
}

TraceHeader header_now(const std::string& values = "") {
  TraceHeader header = header_of_this_process();
  header.window = {1, 3};
  header.values = values;
  return header;
}

// Three steps watched; the trace, and the fingerprint of the weights.
std::pair<Trace, std::string> traced(const std::filesystem::path& path, const std::string& values = "") {
  Net net;
  TraceWriter writer(path, header_now(values));
  {
    OperatorObserver observer(writer);
    for (int i = 1; i <= 3; ++i) {
      observer.begin_step(i);
      step(net.weight, net.bias);
      observer.end_step();
    }
  }
  writer.finish();
  return {read_trace(path), kernels::to_hex(fingerprint(net.weight))};
}

const OperatorLine* find(const Trace& trace, const std::string& key) {
  for (const OperatorLine& line : trace.operators) {
    if (to_string(line.key) == key) return &line;
  }
  return nullptr;
}

class Observer : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) on_.emplace();
  }
  Scratch scratch_;

 private:
  std::optional<aten::OperatorSwitch> on_;
};
INSTANTIATE_TEST_SUITE_P(StockAndIsobit, Observer, ::testing::Bool());

TEST_P(Observer, ChangesNoBit) {
  const std::string alone = trained({}, 3);
  EXPECT_EQ(traced(scratch_.path() / "a", "all").second, alone);
  EXPECT_EQ(trained({}, 3), alone);
}

TEST_P(Observer, IsTheSameTwice) {
  const Trace a = traced(scratch_.path() / "a").first, b = traced(scratch_.path() / "b").first;
  EXPECT_EQ(a.operators, b.operators);
  EXPECT_EQ(a.header.arithmetic, GetParam() ? "isobit-0.1" : "stock-2.13.0");
}

TEST_P(Observer, SeesOutermostOperatorsWithTheirPlace) {
  const Trace trace = traced(scratch_.path() / "a").first;
  const OperatorLine* linear = find(trace, "2/forward/model.fc/aten::linear/1");
  ASSERT_NE(linear, nullptr);
  EXPECT_EQ(linear->arguments, "t,t,t");
  EXPECT_EQ(linear->inputs.size(), 3u);
  EXPECT_EQ(linear->outputs.at(0).shape, (std::vector<std::int64_t>{3, 2}));
  for (const OperatorLine& line : trace.operators) EXPECT_NE(line.key.name, "aten::addmm") << "within linear";
  // Backward belongs to the module of its forward.
  ASSERT_NE(find(trace, "2/backward/model.fc/aten::tanh_backward/1"), nullptr);
  ASSERT_NE(find(trace, "2/optimizer//aten::sub_.Tensor/2"), nullptr);
  EXPECT_EQ(trace.steps.size(), 3u);
}

TEST_P(Observer, ReadsInputsBeforeTheyAreOverwritten) {
  const Trace trace = traced(scratch_.path() / "a").first;
  const OperatorLine* tanh = find(trace, "1/forward/model.fc/aten::tanh_/1");
  ASSERT_NE(tanh, nullptr);
  const OperatorLine* linear = find(trace, "1/forward/model.fc/aten::linear/1");
  EXPECT_EQ(tanh->inputs.at(0).fingerprint, linear->outputs.at(0).fingerprint);
  EXPECT_NE(tanh->outputs.at(0).fingerprint, tanh->inputs.at(0).fingerprint);
}

TEST_P(Observer, WatchesOnlyBetweenBeginAndEnd) {
  Net net;
  TraceWriter writer(scratch_.path() / "a", header_now());
  OperatorObserver observer(writer);
  step(net.weight, net.bias);
  observer.begin_step(1);
  EXPECT_TRUE(observing());
  observer.end_step();
  EXPECT_FALSE(observing());
  step(net.weight, net.bias);
  EXPECT_EQ(writer.operators(), 0);
  EXPECT_THROW(OperatorObserver second(writer), std::logic_error);
}

TEST_P(Observer, MemoryThatNobodyWroteHasNoFingerprint) {
  TraceWriter writer(scratch_.path() / "a", header_now());
  {
    OperatorObserver observer(writer);
    observer.begin_step(1);
    at::Tensor fresh = at::empty({4});
    fresh.fill_(2);
    at::Tensor out = at::empty({2});
    at::add_out(out, at::ones({2}), at::ones({2}));
    observer.end_step();
  }
  writer.finish();
  const Trace trace = read_trace(scratch_.path() / "a");
  EXPECT_EQ(find(trace, "1/forward//aten::empty.memory_format/1")->outputs[0].without, "never written");
  const OperatorLine* fill = find(trace, "1/forward//aten::fill_.Scalar/1");
  EXPECT_EQ(fill->inputs[0].without, "overwritten");
  EXPECT_EQ(fill->outputs[0].fingerprint.size(), 32u);
  EXPECT_EQ(find(trace, "1/forward//aten::add.out/1")->inputs[2].without, "overwritten");
}

TEST_P(Observer, AnErrorIsRaisedAtTheStepsEnd) {
  TraceWriter writer(scratch_.path() / "a", header_now());
  OperatorObserver observer(writer);
  observer.begin_step(1);
  {
    std::optional<aten::OperatorSwitch> other;
    if (!GetParam()) other.emplace();  // isobit within a trace of stock
    const at::Tensor sum = at::ones({2}).add(1);
    EXPECT_EQ(sum.numel(), 2) << "the program goes on";
  }
  if (GetParam()) {
    observer.end_step();
  } else {
    EXPECT_THROW(observer.end_step(), std::logic_error);
  }
}

TEST_P(Observer, OtherWorkTellsItself) {
  TraceWriter writer(scratch_.path() / "a", header_now());
  at::Tensor x = at::ones({3});
  int done = 0;
  observed("isobit::work", "x", "", {x}, {x}, [&] { ++done; });  // nobody watches
  {
    OperatorObserver observer(writer);
    observer.begin_step(1);
    observed("isobit::work", "x", "0.5", {x}, {x}, [&] { x.add_(1), ++done; });
    observer.end_step();
  }
  writer.finish();
  EXPECT_EQ(done, 2);
  const Trace trace = read_trace(scratch_.path() / "a");
  ASSERT_EQ(trace.operators.size(), 1u) << "what it calls is within";
  EXPECT_EQ(to_string(trace.operators[0].key), "1/forward/x/isobit::work/1");
  EXPECT_NE(trace.operators[0].inputs, trace.operators[0].outputs);
}

TEST_P(Observer, KeepsTheValuesOfOneOperator) {
  const Trace trace = traced(scratch_.path() / "a", "2/forward/model.fc/aten::tanh_/1").first;
  const archive::Safetensors values = read_values(trace);
  ASSERT_EQ(values.tensors().size(), 1u);
  EXPECT_EQ(values.tensors()[0].name, "2/forward/model.fc/aten::tanh_/1/0");
  EXPECT_EQ(values.tensors()[0].shape, (std::vector<std::int64_t>{3, 2}));
}

}  // namespace
}  // namespace isobit::trace
