#include "train/torchscript_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>

#include "archive/sha256.h"
#include "archive/user_error.h"
#include "aten/module_path.h"

namespace isobit::train {
namespace {

using archive::UserError;

template <class List>
std::vector<NamedTensor> named(const List& list) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : list) tensors.push_back({item.name, item.value});
  return tensors;
}

class TorchScriptModel : public Model {
 public:
  TorchScriptModel(torch::jit::Module module, std::string path, std::int64_t classes)
      : module_(std::move(module)), path_(std::move(path)), classes_(classes) {}

  at::Tensor forward(const at::Tensor& x) override {
    const aten::ModuleScope scope("model");
    const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
    const c10::IValue result = module_.forward({x});
    if (!result.isTensor()) throw UserError(path_, "its forward returns no tensor", "return only the logits");
    at::Tensor logits = result.toTensor();
    const bool fits = logits.dim() >= 2 && logits.size(0) == x.size(0) && logits.size(1) == classes_;
    if (fits) return logits;
    throw UserError(
        path_,
        fmt::format(
            "its forward returns {} values for {} samples, expected [samples, {}] or [samples, {}, height, width]",
            fmt::join(logits.sizes(), " x "), x.size(0), classes_, classes_),
        "set model.classes to the network's number of outputs");
  }
  void set_training(bool training) override { module_.train(training); }
  std::vector<NamedTensor> parameters() const override { return trained(true); }
  // Parameters that take no gradient keep their values, as buffers do.
  std::vector<NamedTensor> buffers() const override {
    std::vector<NamedTensor> all = named(module_.named_buffers()), frozen = trained(false);
    all.insert(all.end(), frozen.begin(), frozen.end());
    return trace::sorted_by_name(std::move(all));
  }
  // The file's batch norms keep their momentum to themselves: the experiment must have one grain.
  std::vector<BatchStatistics> batch_statistics() const override { return {}; }
  void store_batch_statistics(bool) override {}

 private:
  [[nodiscard]] std::vector<NamedTensor> trained(bool yes) const {
    std::vector<NamedTensor> found = named(module_.named_parameters());
    std::erase_if(found, [&](const NamedTensor& parameter) { return parameter.tensor.requires_grad() != yes; });
    return trace::sorted_by_name(std::move(found));
  }

  torch::jit::Module module_;
  std::string path_;
  std::int64_t classes_;
};

}  // namespace

std::unique_ptr<Model> make_torchscript_model(const ModelSettings& settings, c10::Device device) {
  const std::string& path = settings.torchscript;
  constexpr const char* kRemedy = "save one with torch.jit.script(net).save(\"net.pt\")";
  if (!std::filesystem::is_regular_file(path)) throw UserError(path, "no such file (model.torchscript)", kRemedy);
  const std::string found = archive::digest_file(path).sha256;
  if (!settings.sha256.empty() && settings.sha256 != found) {
    throw UserError(
        path,
        fmt::format("is not the network that was recorded (its SHA-256 is {:.12}..., the record says {:.12}...)", found,
                    settings.sha256),
        "restore the recorded file");
  }
  torch::jit::Module module;
  try {
    module = torch::jit::load(path, device);
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    throw UserError(path, fmt::format("not a TorchScript network: {}", what.substr(0, what.find('\n'))), kRemedy);
  }
  std::size_t count = 0;
  for (const auto& parameter : module.named_parameters()) {
    count += parameter.value.requires_grad();
    if (parameter.value.scalar_type() == at::kFloat) continue;
    throw UserError(path, fmt::format("parameter {} is not float32", parameter.name),
                    "convert the network: net.float()");
  }
  if (count == 0) throw UserError(path, "has no parameter that takes a gradient", kRemedy);
  return std::make_unique<TorchScriptModel>(std::move(module), path, settings.classes);
}

}  // namespace isobit::train
