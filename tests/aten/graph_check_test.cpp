// Graphs recorded under one setting of the switch raise under the other; backward knows the module it came from.
#include "aten/graph_check.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aten/guard.h"
#include "aten/module_path.h"

namespace isobit::aten {
namespace {

std::string error_of(const at::Tensor& loss) {
  try {
    loss.backward({}, /*retain_graph=*/true);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return {};
}

at::Tensor parameter() { return at::full({3}, 0.5).requires_grad_(true); }

// Nodes that save tensors, and nodes that save none.
at::Tensor saving(const at::Tensor& w) { return at::mul(at::sqrt(w), w); }
at::Tensor saving_nothing(const at::Tensor& w) { return at::add(w, w).select(0, 1).unsqueeze(0).squeeze(); }

at::Tensor scalar(const at::Tensor& y) { return y.dim() == 0 ? y : y.select(0, 0); }

TEST(GraphCheck, RaisesWhenRecordedOnAndRunOff) {
  for (auto* forward : {&saving, &saving_nothing}) {
    at::Tensor loss;
    {
      const Guard guard;
      loss = scalar(forward(parameter()));
      EXPECT_EQ(error_of(loss), "");
    }
    EXPECT_NE(error_of(loss).find("recorded with isobit on"), std::string::npos) << error_of(loss);
    const Guard again;
    EXPECT_EQ(error_of(loss), "");
  }
}

TEST(GraphCheck, RaisesWhenRecordedOffAndRunOn) {
  for (auto* forward : {&saving, &saving_nothing}) {
    const at::Tensor loss = scalar(forward(parameter()));
    EXPECT_EQ(error_of(loss), "");
    {
      const Guard guard;
      EXPECT_NE(error_of(loss).find("recorded with isobit off"), std::string::npos) << error_of(loss);
    }
    EXPECT_EQ(error_of(loss), "");
  }
}

TEST(GraphCheck, RaisesWhereOnlyAPartIsFromTheOtherSetting) {
  const at::Tensor half = saving(parameter());
  const Guard guard;
  const at::Tensor loss = scalar(at::mul(half, 2));
  EXPECT_NE(error_of(loss).find("recorded with isobit off"), std::string::npos);
}

TEST(GraphCheck, KnowsGraphsOfOtherThreads) {
  const Guard guard;
  at::Tensor loss;
  std::thread([&] {
    const ModuleScope scope("model");
    loss = scalar(saving(parameter()));
  }).join();
  EXPECT_EQ(error_of(loss), "");
}

// A thread that enters no module, and whose nodes the flipping thread knows nothing of.
template <class Function>
auto on_another_thread(Function&& function) {
  decltype(function()) result;
  std::thread([&] { result = function(); }).join();
  return result;
}

TEST(GraphCheck, KnowsThreadsThatOnlyCallOperators) {
  for (auto* forward : {&saving, &saving_nothing}) {
    const auto record = [&] { return on_another_thread([&] { return scalar(forward(parameter())); }); };
    at::Tensor on, off = record();
    {
      const Guard guard;
      on = record();
      EXPECT_EQ(error_of(on), "");
      EXPECT_NE(error_of(off).find("recorded with isobit off"), std::string::npos) << error_of(off);
    }
    EXPECT_NE(error_of(on).find("recorded with isobit on"), std::string::npos) << error_of(on);
    EXPECT_EQ(error_of(off), "");
  }
}

TEST(GraphCheck, KnowsAThreadThatLivesThroughFlips) {
  // One thread records all the time, another turns the switch.
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<at::Tensor> graphs;
  std::size_t asked = 0;
  std::thread recorder([&] {
    std::unique_lock lock(mutex);
    while (graphs.size() < 5) {
      changed.wait(lock, [&] { return asked > graphs.size(); });
      graphs.push_back(scalar(saving_nothing(parameter())));
      changed.notify_all();
    }
  });
  const auto record = [&] {
    std::unique_lock lock(mutex);
    const std::size_t before = graphs.size();
    asked = before + 1;
    changed.notify_all();
    changed.wait(lock, [&] { return graphs.size() > before; });
  };
  for (int turn = 0; turn < 2; ++turn) {
    record();  // off
    const Guard guard;
    record();  // on
  }
  record();
  recorder.join();
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const bool recorded_on = i % 2 == 1;
    EXPECT_EQ(error_of(graphs[i]).empty(), !recorded_on) << i;
  }
  const Guard guard;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const bool recorded_on = i % 2 == 1;
    EXPECT_EQ(error_of(graphs[i]).empty(), recorded_on) << i;
  }
}

TEST(GraphCheck, KnowsNodesThatBackwardMakes) {
  const Guard guard;
  at::Tensor base = at::mul(parameter(), 2);
  const at::Tensor view = base.select(0, 0);
  base.mul_(3);
  EXPECT_EQ(error_of(view), "");  // the view's node is made anew when it is asked for
}

TEST(GraphCheck, BackwardRunsOnAnotherThread) {
  const Guard guard;
  const at::Tensor loss = scalar(saving(parameter()));
  EXPECT_EQ(on_another_thread([&] { return error_of(loss); }), "");
}

// Whatever becomes certified, an own function can call what has no formula in backward alone.
struct RefusedInBackward : torch::autograd::Function<RefusedInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return at::mul(x, 2); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& grads) {
    return {at::special_bessel_y1(grads[0])};
  }
};

TEST(ModulePath, BackwardNamesTheForwardModule) {
  const Guard guard;
  begin_step(7);
  at::Tensor loss;
  {
    const ModuleScope model("model");
    at::Tensor x = parameter();
    {
      const ModuleScope table("table");
      x = RefusedInBackward::apply(x);
    }
    const ModuleScope head("head");
    loss = scalar(at::mul(x, x));
  }
  const std::string what = error_of(loss);
  EXPECT_NE(what.find("in     model.table (step 7, backward of "), std::string::npos) << what;
  EXPECT_NE(what.find("RefusedInBackward"), std::string::npos) << what;
  begin_step(-1);
}

}  // namespace
}  // namespace isobit::aten
