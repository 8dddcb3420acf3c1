#include "aten/foreign_kernels.h"

#include <dlfcn.h>

#include <memory>
#include <string_view>
#include <utility>

#include <c10/core/DispatchKeySet.h>

#include "aten/dispatcher_entry.h"
#include "aten/refusal.h"
#include "aten/stand_ins.h"

namespace isobit::aten {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::OperatorHandle;

constexpr std::string_view kRegistered = "registered at ", kSchemas = "build/aten/src/ATen/RegisterSchema.cpp";

// Of "registered at /pytorch/build/aten/src/ATen/RegisterSchema.cpp:6": "/pytorch/"; "" where it is another text.
std::string_view tree_of(std::string_view made) {
  const auto end = made.find(kSchemas);
  if (end == made.npos || !made.starts_with(kRegistered)) return {};
  return made.substr(kRegistered.size(), end - kRegistered.size());
}

// ".../site-packages/torch/", where libtorch lies in its folder lib.
const std::string& package() {
  static const std::string folder = [] {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&c10::Dispatcher::realSingleton), &info) == 0) return std::string();
    const std::string path = info.dli_fname == nullptr ? "" : info.dli_fname;
    const auto lib = path.rfind("/lib/");
    return lib == path.npos ? std::string() : path.substr(0, lib + 1);
  }();
  return folder;
}

// Whether a call on a dense tensor of the CPU or of a CUDA device may meet it while the switch is on. Autocast is
// refused, tracing computes nothing, tensors on "meta" have no values.
bool is_met(DispatchKey key) {
  const std::string_view name = c10::toString(key);
  if (name.starts_with("Autocast") || name == "Tracer" || name == "Meta") return false;
  if (c10::isAliasDispatchKey(key)) return true;
  const bool of_a_backend = key > DispatchKey::EndOfFunctionalityKeys;
  if (!of_a_backend) return true;
  const c10::BackendComponent backend = c10::toBackendComponent(key);
  return backend == c10::BackendComponent::CPUBit || backend == c10::BackendComponent::CUDABit;
}

class ForeignKernelRefused final : public c10::OperatorKernel {
 public:
  explicit ForeignKernelRefused(std::string place) : place_(std::move(place)) {}
  void operator()(const OperatorHandle& op, DispatchKeySet, torch::jit::Stack*) {
    refuse(c10::toString(op.operator_name()), "is computed by another library (" + place_ + ") and is not certified",
           "do without that library, or run this part outside isobit (with isobit.disabled():)");
  }

 private:
  std::string place_;
};

}  // namespace

bool is_torchs(const OperatorHandle& op, DispatchKey key) {
  const auto& kernels = kernels_of(op);
  const auto found = kernels.find(key);
  if (found == kernels.end() || found->second.empty() || package().empty()) return false;
  std::string_view made = found->second.front().debug;
  if (!made.starts_with(kRegistered)) return false;
  made.remove_prefix(kRegistered.size());
  return made.starts_with(package());
}

std::vector<ForeignKernel> foreign_kernels(const OperatorHandle& op) {
  std::vector<ForeignKernel> found;
  if (!op.hasSchema()) return found;
  const std::string_view tree = tree_of(op.debug());
  if (tree.empty()) return found;
  for (const auto& [key, kernels] : kernels_of(op)) {
    if (kernels.empty()) continue;
    std::string_view made = kernels.front().debug;
    if (made == kGuardsKernel || made == kNotingKernel) continue;
    if (made.starts_with(kRegistered)) made.remove_prefix(kRegistered.size());  // else a text of the library's own
    if (made.starts_with(tree) || is_switchs(kernels.front())) continue;
    if (!package().empty() && made.starts_with(package())) continue;
    if (is_met(key)) found.push_back({key, std::string(made)});
  }
  return found;
}

c10::KernelFunction refusing_foreign_kernel(std::string place) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<ForeignKernelRefused>(std::move(place)));
}

}  // namespace isobit::aten
