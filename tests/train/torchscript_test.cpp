// Networks from files: a file's code runs only if every graph in it may.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <functional>
#include <string>

#include "archive/user_error.h"
#include "aten/operator_switch.h"
#include "train/synthetic_data.h"
#include "train/torchscript_model.h"

namespace isobit::train {
namespace {

using torch::jit::Module;

constexpr const char* kForward = R"(
def forward(self, x):
    return torch.linear(x.flatten(1), self.weight)
)";
std::string forward_and(const std::string& more) { return kForward + more; }

// A network of this code, as torch.jit.save writes it.
class Network {
 public:
  explicit Network(const std::string& code, const std::function<void(Module&)>& change = {}) {
    net_.register_parameter("weight", at::ones({2, 9}).requires_grad_(true), false);
    net_.register_attribute("training", c10::BoolType::get(), true);
    if (change) change(net_);
    net_.define(code);
    path_ = folder_.path() / "net.pt";
    net_.save(path_);
  }
  [[nodiscard]] std::unique_ptr<Model> load() const {
    ModelSettings settings;
    settings.name = "torchscript";
    settings.torchscript = path_;
    settings.classes = 2;
    const samples::Field images{"images", samples::Element::uint8, {1, 3, 3}, samples::Role::input};
    return make_torchscript_model(settings, {images}, at::kCPU);
  }
  // What loading says; empty if it goes through.
  [[nodiscard]] std::string error() const {
    try {
      (void)load();
    } catch (const archive::UserError& error) {
      return error.what();
    }
    return "";
  }
  [[nodiscard]] std::filesystem::path beside(const char* name) const { return folder_.path() / name; }

 private:
  ScratchFolder folder_;
  Module net_{"Net"};
  std::string path_;
};

void expect_says(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

TEST(TorchScript, ScalarMathematicsIsRefusedWithItsPlace) {
  const Network network(R"(
def forward(self, x):
    scale = float(x.size(0))
    return torch.linear(x.flatten(1), self.weight) * torch.exp(scale)
)");
  expect_says(network.error(), {"net.pt: holds aten::exp.float, which is not certified, at ", "(TorchScript, forward)",
                                "compute it as a tensor", "save the network again"});
}

TEST(TorchScript, ExactScalarsPass) {
  const Network network(R"(
def forward(self, x):
    scale = float(x.size(0)) / 3.0
    sizes = [x.size(0), -1]
    return torch.linear(x.reshape(sizes), self.weight) * torch.sqrt(scale)
)");
  EXPECT_EQ(network.error(), "");
  const aten::OperatorSwitch on;
  const at::Tensor logits = network.load()->forward(at::ones({3, 1, 3, 3}));
  EXPECT_TRUE(at::equal(logits, at::full({3, 2}, 9.0)));
}

TEST(TorchScript, MethodsThatForwardDoesNotCallCount) {
  expect_says(Network(forward_and(R"(
def other(self, x: float) -> float:
    return torch.log(x)
)"))
                  .error(),
              {"aten::log.float"});
}

TEST(TorchScript, BlocksForksAndSubmodulesCount) {
  expect_says(Network(R"(
def forward(self, x):
    if x.size(0) > 1000:
        for i in range(3):
            x = x * torch.sin(float(i))
    return torch.linear(x.flatten(1), self.weight)
)")
                  .error(),
              {"aten::sin.float"});
  const auto with_part = [](Module& net) {
    Module part("Part");
    part.define("def forward(self, x: float) -> float:\n    return torch.erf(x)\n");
    net.register_module("part", part);
  };
  expect_says(Network(kForward, with_part).error(), {"aten::erf.float", "save the network again"});
}

TEST(TorchScript, FilesAndSeedsAreRefused) {
  expect_says(Network(forward_and("def keep(self, x):\n    torch.save(x, \"kept.pt\")\n    return x\n")).error(),
              {"aten::save"});
  expect_says(Network(forward_and("def again(self, x):\n    torch.manual_seed(1)\n    return x\n")).error(),
              {"aten::manual_seed", "isobit.seed"});
}

// Reading a file runs its objects' own code, before any graph can be looked at.
TEST(TorchScript, NothingIsWrittenWhileAFileIsRead) {
  const ScratchFolder folder;
  const std::filesystem::path written = folder.path() / "written.pt";
  const Network network(forward_and(R"(
def __getstate__(self):
    return (self.weight, self.training)
def __setstate__(self, state: Tuple[Tensor, bool]):
    self.weight = state[0]
    self.training = state[1]
    torch.save(state[0], ")" + written.string() +
                                    R"(")
    return None
)"));
  expect_says(network.error(), {"net.pt: not a TorchScript network: isobit: aten::save is not certified"});
  EXPECT_FALSE(std::filesystem::exists(written));
}

TEST(TorchScript, ARefusedOperatorStandsAlone) {
  const Network network(R"(
def forward(self, x):
    return torch.matrix_exp(torch.linear(x.flatten(1), self.weight))
)");
  const auto model = network.load();
  const aten::OperatorSwitch on;
  try {
    (void)model->forward(at::ones({3, 1, 3, 3}));
    ADD_FAILURE() << "not refused";
  } catch (const std::exception& error) {
    EXPECT_EQ(std::string(error.what()).rfind("isobit: aten::linalg_matrix_exp is not certified under isobit-", 0), 0U)
        << error.what();
  }
}

TEST(TorchScript, AScriptCannotTurnGradientsOff) {
  const Network network(R"(
def forward(self, x):
    y = torch.linear(x.flatten(1), self.weight)
    torch.set_grad_enabled(False)
    return y
)");
  ASSERT_EQ(network.error(), "");
  const auto model = network.load();
  const aten::OperatorSwitch on;
  EXPECT_TRUE(model->forward(at::ones({3, 1, 3, 3})).requires_grad());
  EXPECT_TRUE(model->forward(at::ones({3, 1, 3, 3})).requires_grad());
}

TEST(TorchScript, WhatItPrintsIsEscaped) {
  const Network network(R"(
def forward(self, x):
    print("\033[2Kidentical")
    return torch.linear(x.flatten(1), self.weight)
)");
  const auto model = network.load();
  const aten::OperatorSwitch on;
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  (void)model->forward(at::ones({3, 1, 3, 3}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "\\x1b[2Kidentical\n");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace isobit::train
