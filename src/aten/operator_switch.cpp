#include "aten/operator_switch.h"

#include <ATen/Context.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "aten/batch_statistics.h"
#include "aten/certified.h"
#include "aten/device_composites.h"
#include "aten/guard.h"
#include "aten/reduced_floats.h"
#include "aten/sparse_operators.h"
#include "aten/subnormals.h"
#include "aten/tensor_memory.h"
#include "aten/tensordot.h"
#include "aten/torchscript_guard.h"
#include "kernels/isa.h"

namespace isobit::aten {
namespace {

// The dispatcher warns once per process that a kernel is overridden, which is what the switch is for.
class SilentHandler : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// Where PyTorch asks whether it may hand over to kernels of others that would be refused, it may not: attention takes
// its composition, and for CUDA tensors grid_sampler, recurrent layers' weights and others stay away from cuDNN.
class WithoutFusedKernels {
 public:
  WithoutFusedKernels() : context_(at::globalContext()) {
    before_ = {context_.userEnabledFlashSDP(), context_.userEnabledMemEfficientSDP(), context_.userEnabledCuDNNSDP(),
               context_.userEnabledMathSDP(), context_.userEnabledCuDNN()};
    set({false, false, false, true, false});
  }
  ~WithoutFusedKernels() { set(before_); }
  WithoutFusedKernels(const WithoutFusedKernels&) = delete;
  WithoutFusedKernels& operator=(const WithoutFusedKernels&) = delete;

 private:
  using Choices = std::array<bool, 5>;
  void set(const Choices& choices) {
    context_.setSDPUseFlash(choices[0]);
    context_.setSDPUseMemEfficient(choices[1]);
    context_.setSDPUseCuDNN(choices[2]);
    context_.setSDPUseMath(choices[3]);
    context_.setUserEnabledCuDNN(choices[4]);
  }

  at::Context& context_;
  Choices before_;
};

struct Installed {
  Installed()
      : library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__),
        autograd_library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCPU, __FILE__, __LINE__),
        sparse_library(torch::Library::IMPL, "aten", c10::DispatchKey::SparseCPU, __FILE__, __LINE__),
        device_library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__),
        device_autograd_library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradCUDA, __FILE__, __LINE__),
        composites(torch::Library::IMPL, "aten", c10::DispatchKey::CompositeImplicitAutograd, __FILE__, __LINE__) {
    SilentHandler silent;
    const c10::WarningUtils::WarningHandlerGuard quiet(&silent);
    register_certified(library);
    register_certified_autograd(autograd_library);
    register_sparse(sparse_library);
    register_certified_on_device(device_library);
    register_certified_autograd(device_autograd_library);
    register_device_composites(device_library, device_autograd_library);
    for (torch::Library* each : {&library, &autograd_library, &device_library, &device_autograd_library}) {
      register_tensordot(*each);
    }
    register_cudnn_answers(composites);
    register_instance_norm(composites);
    register_reduced_composites(composites);
    guard = std::make_unique<Guard>();
  }

  KeptTensorMemory memory;
  WithoutFusedKernels choices;
  ScriptsAsWritten scripts;
  torch::Library library, autograd_library, sparse_library, device_library, device_autograd_library, composites;
  std::unique_ptr<Guard> guard;  // destroyed first: refusals go before the operators they protect
};

std::mutex mutex;
// Never destroyed: a process may end with the switch on, when torch's own tables are gone already.
auto& installed = *new std::unique_ptr<Installed>;
int depth = 0;
std::atomic<bool> is_on = false;
std::atomic<bool> ever_on = false;
std::atomic<contract::ProductTier> tier = contract::ProductTier::ordered;

}  // namespace

OperatorSwitch::OperatorSwitch() : OperatorSwitch(products()) {}

OperatorSwitch::OperatorSwitch(contract::ProductTier products) {
  const std::lock_guard lock(mutex);
  if (depth > 0 && products != tier) {
    throw std::logic_error("products are " + std::string(name(tier.load())) +
                           " where the switch is on: they cannot be " + std::string(name(products)) + " within");
  }
  ever_on = true;
  forget_checked_pools();
  tier = products;
  if (products == contract::ProductTier::exact3) kernels::prefer_exact_products();
  if (depth == 0) installed = std::make_unique<Installed>();
  ++depth;
  is_on = true;
}

OperatorSwitch::~OperatorSwitch() {
  const std::lock_guard lock(mutex);
  if (--depth > 0) return;
  is_on = false;
  installed.reset();
  tier = contract::ProductTier::ordered;
}

bool OperatorSwitch::on() { return is_on; }

contract::ProductTier OperatorSwitch::products() { return tier; }

bool OperatorSwitch::was_on() { return ever_on; }

}  // namespace isobit::aten
