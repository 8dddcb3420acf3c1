// One fingerprint per network, whatever executes it (fingerprint_test.cpp has the first three networks).
#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <set>

#include "archive/sha256.h"
#include "archive/user_error.h"
#include "contract/philox.h"
#include "train/fingerprint_courses.h"
#include "train/torchscript_model.h"

namespace isobit::train {
namespace {

constexpr Course kCnnLstm = {"cnn_lstm", R"(
seed = 7
steps = 4
batch = 10
grain = 4
[model]
name = "cnn_lstm"
width = 24
depth = 2
dropout = 0.1
[optimizer]
name = "sgd"
lr = 0.1
momentum = 0.9
[evaluate]
batch = 8)",
                             40, 12, 16};

constexpr Course kTransformer = {"transformer", R"(
seed = 8
steps = 4
batch = 10
grain = 4
[model]
name = "transformer"
width = 32
depth = 2
heads = 2
[optimizer]
name = "adamw"
[evaluate]
batch = 8)",
                                 40, 12, 14};

constexpr Course kVitTiny = {"vit_tiny", R"(
seed = 9
steps = 4
batch = 8
[model]
name = "vit_tiny"
width = 48
depth = 2
heads = 3
patch = 7
[optimizer]
name = "adam"
lr = 0.002
[evaluate]
batch = 8)",
                             40, 12, 28};

constexpr Course kUnet = {"unet", R"(
seed = 11
steps = 3
batch = 6
grain = 2
[data]
target = "silhouette"
[model]
name = "unet"
width = 8
classes = 11
[optimizer]
name = "sgd"
lr = 0.05
momentum = 0.9
[augment]
crop = 2
flip = true
[evaluate]
batch = 4)",
                          20, 6, 16};

TEST_F(Fingerprints, UNet) { expect_one(kUnet, pairwise_settings()); }
TEST_F(Fingerprints, CnnLstm) { expect_one(kCnnLstm, pairwise_settings()); }
TEST_F(Fingerprints, Transformer) { expect_one(kTransformer, pairwise_settings()); }
TEST_F(Fingerprints, VitTiny) { expect_one(kVitTiny, pairwise_settings()); }

// Language modelling steps on random tokens: SGD by hand, next token as the target.
std::string train_gpt2(const ModelSettings& settings, std::int64_t length, int steps, const Setting& setting) {
  const kernels::IsaScope isa(setting.isa);
  const kernels::ThreadCountScope threads(setting.threads);
  const auto model = make_model(settings, 0, 0, 12);
  std::vector<std::int64_t> words;
  for (std::int64_t i = 0; i <= length; ++i)
    words.push_back(contract::random_word(13, static_cast<std::uint64_t>(i)) % settings.classes);
  const at::Tensor text = at::tensor(words, at::kLong);
  std::string losses;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor loss = at::cross_entropy_loss(model->forward(text.narrow(0, 0, length).unsqueeze(0)).flatten(0, 1),
                                                   text.narrow(0, 1, length));
    loss.backward();
    losses += std::to_string(loss.item<float>()) + " ";
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : model->parameters()) {
      at::Tensor parameter = tensor;
      parameter.sub_(parameter.grad().mul(0.1));
      parameter.mutable_grad() = at::Tensor();
    }
  }
  return "weights " + kernels::to_hex(trace::fingerprint(model->state())) + " losses " + losses;
}

ModelSettings gpt2_of(std::int64_t width, std::int64_t depth, std::int64_t vocabulary) {
  ModelSettings settings;
  settings.name = "gpt2";
  settings.width = width, settings.depth = depth, settings.classes = vocabulary;
  return settings;
}

TEST_F(Fingerprints, Gpt2) {
  const ModelSettings settings = gpt2_of(128, 2, 700);
  const std::vector<Setting> all = pairwise_settings();
  const std::string first = train_gpt2(settings, 65, 3, all.front());
  expect_golden("gpt2", first);
  for (const Setting& setting : all) EXPECT_EQ(train_gpt2(settings, 65, 3, setting), first) << describe(setting);
}

// 124 million parameters, a batch of 1 x 256 tokens, two steps.
TEST_F(Fingerprints, Gpt2Of124MillionParameters) {
  if (std::getenv("ISOBIT_LARGE") == nullptr) GTEST_SKIP() << "takes a minute and 4 GiB: run with ISOBIT_LARGE=1";
  const ModelSettings settings = gpt2_of(768, 12, 50257);
  const std::string first = train_gpt2(settings, 256, 2, {kernels::best_isa(), 2, GrainOrder::ascending, false});
  expect_golden("gpt2_124m", first);
  EXPECT_EQ(train_gpt2(settings, 256, 2, {kernels::Isa::avx2, 1, GrainOrder::ascending, false}), first);
}

// The names are the interface to checkpoints and to Python's modules of the same network.
TEST_F(Fingerprints, ParametersHaveThePublishedNames) {
  const auto names = [](const char* name, const char* some) {
    ModelSettings settings;
    settings.name = name;
    std::set<std::string> found;
    for (const NamedTensor& parameter : make_model(settings, 28, 28, 1)->parameters()) found.insert(parameter.name);
    EXPECT_EQ(found.count(some), 1U) << name << " " << some;
    return found.size();
  };
  EXPECT_EQ(names("vit_tiny", "blocks.11.attn.qkv.weight"), 4U + 12 * 12 + 4);
  EXPECT_EQ(names("transformer", "layers.3.self_attn.in_proj_weight"), 3U + 4 * 12 + 2);
  EXPECT_EQ(names("cnn_lstm", "lstm.weight_hh_l0"), 4U + 4 + 2);
  EXPECT_EQ(names("unet", "merge0.conv1.weight"), 3U * 6 + 2 * (2 + 6) + 2);
}

std::string message_of(const ModelSettings& settings, std::int64_t height, std::int64_t width) {
  try {
    (void)make_model(settings, height, width, 1);
  } catch (const archive::UserError& error) {
    return error.what();
  }
  return "";
}

TEST_F(Fingerprints, NetworksThatDoNotFitSaySo) {
  ModelSettings settings;
  settings.name = "unet";
  EXPECT_NE(message_of(settings, 30, 28).find("multiples of 4"), std::string::npos);
  settings.name = "vit_tiny";
  settings.patch = 5;
  EXPECT_NE(message_of(settings, 28, 28).find("model.patch = 5"), std::string::npos);
  settings.patch = 4, settings.heads = 7;
  EXPECT_NE(message_of(settings, 28, 28).find("7 heads do not divide the width 192"), std::string::npos);
  settings.name = "cnn_lstm";
  EXPECT_NE(message_of(settings, 3, 28).find("3x28"), std::string::npos);
}

// A network as torch.jit.script would write it.
void save_network(const std::string& path, at::ScalarType type = at::kFloat) {
  torch::jit::Module net("Net");
  net.register_parameter(
      "weight", at::arange(-720, 720).to(at::kFloat).mul(1e-4).view({10, 144}).to(type).requires_grad_(true), false);
  net.register_parameter("bias", at::zeros({10}, type).requires_grad_(true), false);
  net.register_attribute("training", c10::BoolType::get(), true);
  net.define(R"(
def forward(self, x):
    x = torch.dropout(torch.relu(x.flatten(1)), 0.25, self.training)
    return torch.linear(x, self.weight, self.bias)
)");
  net.save(path);
}

TEST_F(Fingerprints, TorchScript) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "net.pt";
  save_network(path);
  const std::string text = R"(
seed = 10
steps = 4
batch = 10
[model]
name = "torchscript"
torchscript = ")" + path + R"("
[optimizer]
lr = 0.5
[evaluate]
batch = 8)";
  const Course course{"torchscript", text.c_str(), 40, 12, 12};
  expect_one(course, pairwise_settings());
}

TEST_F(Fingerprints, TorchScriptFilesThatWillNotDo) {
  const ScratchFolder folder;
  const std::string path = folder.path() / "net.pt";
  ModelSettings settings;
  settings.name = "torchscript";
  settings.torchscript = path;
  EXPECT_NE(message_of(settings, 12, 12).find("no such file"), std::string::npos);
  std::ofstream(path) << "nothing";
  EXPECT_NE(message_of(settings, 12, 12).find("not a TorchScript network"), std::string::npos);
  save_network(path, at::kDouble);
  EXPECT_NE(message_of(settings, 12, 12).find("is not float32"), std::string::npos);
  save_network(path);
  EXPECT_EQ(message_of(settings, 12, 12), "");
  settings.sha256 = std::string(64, '0');
  EXPECT_NE(message_of(settings, 12, 12).find("not the network that was recorded"), std::string::npos);
  settings.sha256 = archive::digest_file(path).sha256;
  EXPECT_EQ(message_of(settings, 12, 12), "");
  settings.classes = 7;
  const auto model = make_model(settings, 12, 12, 1);
  EXPECT_THROW((void)model->forward(at::zeros({2, 1, 12, 12})), archive::UserError);
}

}  // namespace
}  // namespace isobit::train
