#include "train/torchscript_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/print_handler.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>

#include "archive/printable.h"
#include "archive/sha256.h"
#include "archive/user_error.h"
#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "aten/torchscript_guard.h"

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
  TorchScriptModel(torch::jit::Module module, std::string path, std::vector<std::string> names, std::int64_t classes)
      : module_(std::move(module)), path_(std::move(path)), names_(std::move(names)), classes_(classes) {}

  at::Tensor forward(const std::vector<at::Tensor>& inputs) override {
    const aten::ModuleScope scope("model");
    const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
    const c10::AutoGradMode restored(c10::GradMode::is_enabled());  // a script may set it
    const c10::IValue result = run(inputs);
    if (!result.isTensor()) throw UserError(path_, "its forward returns no tensor", "return only the logits");
    at::Tensor logits = result.toTensor();
    const std::int64_t n = inputs[0].size(0);
    const bool fits = logits.dim() >= 2 && logits.size(0) == n && (logits.size(1) == classes_ || by_token(logits));
    if (fits) return logits;
    throw UserError(
        path_,
        fmt::format(
            "its forward returns {} values for {} samples, expected [samples, {}] or [samples, {}, height, width]",
            fmt::join(logits.sizes(), " x "), n, classes_, classes_),
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

 private:
  // The interpreter makes a text of what an operator throws, with its own traceback before: a refusal stands alone
  // again.
  c10::IValue run(const std::vector<at::Tensor>& inputs) try {
    if (names_.empty()) return module_.forward({inputs[0]});
    torch::jit::Kwargs named;
    for (std::size_t i = 0; i < inputs.size(); ++i) named[names_[i]] = inputs[i];
    return module_.forward({}, named);
  } catch (const std::runtime_error& error) {
    std::string_view text = error.what();
    const std::size_t refusal = text.rfind("isobit: ");
    if (refusal == text.npos) throw;
    text.remove_prefix(refusal);
    while (text.ends_with('\n')) text.remove_suffix(1);
    throw std::runtime_error(std::string(text));
  }
  [[nodiscard]] std::vector<NamedTensor> trained(bool yes) const {
    std::vector<NamedTensor> found = named(module_.named_parameters());
    std::erase_if(found, [&](const NamedTensor& parameter) { return parameter.tensor.requires_grad() != yes; });
    return trace::sorted_by_name(std::move(found));
  }

  [[nodiscard]] bool by_token(const at::Tensor& logits) const {
    return logits.dim() == 3 && logits.size(2) == classes_;
  }

  torch::jit::Module module_;
  std::string path_;
  std::vector<std::string> names_;  // of the inputs; none where there is one
  std::int64_t classes_;
};

// A file is somebody's code. It is read under the switch, since reading runs what it says of restoring its objects, and
// all of its graphs are looked at before any step.
torch::jit::Module load(const std::string& path, c10::Device device, const char* remedy) {
  torch::jit::setPrintHandler(
      [](const std::string& text) { fmt::print(stderr, "{}", archive::printable_lines(text)); });
  torch::jit::Module module;
  try {
    const aten::OperatorSwitch on;
    module = torch::jit::load(path, device);
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    const std::string what = torch_error ? torch_error->what_without_backtrace() : error.what();
    const std::size_t refusal = what.find("isobit: ");
    const std::string reason = refusal == what.npos ? what : what.substr(refusal);
    throw UserError(path, "not a TorchScript network: " + archive::printable(reason.substr(0, reason.find('\n'))),
                    remedy);
  }
  if (const auto found = aten::find_forbidden(*module._ivalue()->compilation_unit())) {
    throw UserError(path, fmt::format("holds {}, which is not certified, at {}", found->what, found->place),
                    found->remedy + ", and save the network again");
  }
  return module;
}

// By which names forward takes the inputs.
std::vector<std::string> argument_names(const torch::jit::Module& module, const std::vector<samples::Field>& inputs,
                                        const std::string& path) {
  std::vector<std::string> arguments, wanted, fields;
  for (const c10::Argument& argument : module.get_method("forward").function().getSchema().arguments()) {
    if (argument.name() == "self") continue;
    arguments.push_back(argument.name());
    if (!argument.default_value()) wanted.push_back(argument.name());
  }
  if (inputs.size() == 1 && wanted.size() <= 1 && !arguments.empty()) return {};
  for (const samples::Field& field : inputs) fields.push_back(field.name);
  const auto within = [](const std::vector<std::string>& some, const std::vector<std::string>& all) {
    return std::all_of(some.begin(), some.end(),
                       [&](const std::string& name) { return std::find(all.begin(), all.end(), name) != all.end(); });
  };
  if (within(fields, arguments) && within(wanted, fields)) return fields;
  throw UserError(
      path,
      fmt::format("its forward takes ({}), but the data has the inputs ({})",
                  archive::printable(fmt::format("{}", fmt::join(arguments, ", "))), fmt::join(fields, ", ")),
      "name the fields in data.inputs as the arguments");
}

}  // namespace

std::unique_ptr<Model> make_torchscript_model(const ModelSettings& settings, const std::vector<samples::Field>& inputs,
                                              c10::Device device) {
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
  torch::jit::Module module = load(path, device, kRemedy);
  std::size_t count = 0;
  for (const auto& parameter : module.named_parameters()) {
    count += parameter.value.requires_grad();
    if (parameter.value.scalar_type() == at::kFloat) continue;
    throw UserError(path, fmt::format("parameter {} is not float32", parameter.name),
                    "convert the network: net.float()");
  }
  if (count == 0) throw UserError(path, "has no parameter that takes a gradient", kRemedy);
  std::vector<std::string> names = argument_names(module, inputs, path);
  return std::make_unique<TorchScriptModel>(std::move(module), path, std::move(names), settings.classes);
}

}  // namespace isobit::train
