#include "aten/guard.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <link.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include "aten/check_mode.h"
#include "aten/classification.h"
#include "aten/device_composites.h"
#include "aten/dispatcher_entry.h"
#include "aten/exact_operators.h"
#include "aten/foreign_kernels.h"
#include "aten/graph_check.h"
#include "aten/guarded_kernels.h"
#include "aten/library_operators.h"
#include "aten/refusal.h"
#include "aten/sparse_operators.h"
#include "aten/stand_ins.h"
#include "aten/subnormals.h"
#include "aten/uninitialised.h"

namespace isobit::aten {
namespace {

using c10::Dispatcher;
using c10::DispatchKey;
using c10::OperatorHandle;

struct Registration {
  DispatchKey key;
  c10::KernelFunction kernel;
};

// Where autograd would run a composite before BackendSelect is reached.
constexpr DispatchKey kAutogradKeys[] = {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA,
                                         DispatchKey::AutogradNestedTensor, DispatchKey::AutogradOther};

// Backends other than dense CPU and CUDA: an allowed operator is allowed there only through its children.
std::vector<DispatchKey> other_backends() {
  using c10::BackendComponent;
  std::vector<DispatchKey> keys = {DispatchKey::MkldnnCPU, DispatchKey::FPGA, DispatchKey::Vulkan, DispatchKey::Metal};
  constexpr auto kEnd = static_cast<std::uint8_t>(BackendComponent::EndOfBackendKeys);
  for (std::uint8_t i = 1; i <= kEnd; ++i) {
    const auto backend = static_cast<BackendComponent>(i);
    if (backend == BackendComponent::MetaBit) continue;  // shapes without values
    for (const DispatchKey layout :
         {DispatchKey::Quantized, DispatchKey::Sparse, DispatchKey::SparseCsr, DispatchKey::NestedTensor}) {
      keys.push_back(c10::toRuntimePerBackendFunctionalityKey(layout, backend));
    }
    if (backend == BackendComponent::CPUBit || backend == BackendComponent::CUDABit) continue;
    keys.push_back(c10::toRuntimePerBackendFunctionalityKey(DispatchKey::Dense, backend));
    keys.push_back(c10::toRuntimePerBackendFunctionalityKey(DispatchKey::AutogradFunctionality, backend));
  }
  return keys;
}

// Of devices other than CPU and CUDA, those that PyTorch can use in this process: their backends were loaded.
std::vector<c10::DeviceType> other_devices() {
  std::vector<c10::DeviceType> loaded;
  for (int i = 0; i < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++i) {
    const auto type = static_cast<c10::DeviceType>(i);
    const bool ours = type == c10::DeviceType::CPU || type == c10::DeviceType::CUDA || type == c10::DeviceType::Meta;
    if (!ours && c10::impl::hasDeviceGuardImpl(type)) loaded.push_back(type);
  }
  return loaded;
}

// What an operator that is exact or composite on the CPU meets on a device.
c10::KernelFunction device_kernel(const OperatorHandle& op, const std::string& full, bool known) {
  switch (class_of(full, DeviceKind::cuda)) {
    case OperatorClass::refused: return refusing_device_kernel();
    case OperatorClass::composite:
      // Stock has kernels of its own there for operators that on the CPU are loops over others.
      if (known && op.hasKernelForDispatchKey(DispatchKey::CUDA) && !is_device_composite(full)) return cpu_way_kernel();
      break;
    case OperatorClass::certified:
    case OperatorClass::exact: break;
  }
  return {};
}

// Stock differentiates some composites as a whole for CUDA tensors, by formulas that are not certified; on the CPU
// through what they call.
bool is_one_step_on_device(const OperatorHandle& op, const std::string& full) {
  return op.hasKernelForDispatchKey(DispatchKey::CUDA) &&
         op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) && !is_device_composite(full);
}

// What the guard registers for an operator. known: its kernels are there already (false inside the definition
// of a new one, whose kernels come later).
struct Plan {
  OperatorClass kind;
  std::vector<Registration> registrations;
};
Plan plan(const OperatorHandle& op, bool known) {
  const c10::OperatorName& name = op.operator_name();
  const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  OperatorClass kind = class_of(full);
  std::vector<Registration> registrations;
  if (const LibraryOperator* ours = find_library_operator(full)) {
    if (fits(*ours, op)) {
      registrations.push_back({DispatchKey::BackendSelect, library_kernel(*ours)});
      return {kind, std::move(registrations)};
    }
    kind = OperatorClass::refused;
  }
  if (kind == OperatorClass::refused) {
    registrations.push_back({DispatchKey::BackendSelect, refusing_kernel()});
    const bool before_backend = !known || name.name.rfind("aten::", 0) != 0 ||
                                op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
    if (before_backend) {
      for (const DispatchKey key : kAutogradKeys) registrations.push_back({key, refusing_kernel()});
    }
    if (!known) registrations.push_back({DispatchKey::ADInplaceOrView, refusing_kernel()});
    return {kind, std::move(registrations)};
  }
  if (kind == OperatorClass::exact) {
    const ExactOperator* const exact = find_exact(full);  // or one that makes sparse tensors
    c10::KernelFunction kernel = exact == nullptr ? c10::KernelFunction() : checking_kernel(exact->rule, full);
    if (kernel.isValid()) registrations.push_back({DispatchKey::BackendSelect, std::move(kernel)});
  }
  if (kind == OperatorClass::composite) {
    if (c10::KernelFunction kernel = allocating_kernel(full); kernel.isValid())
      registrations.push_back({DispatchKey::BackendSelect, std::move(kernel)});
  }
  if (c10::KernelFunction kernel = device_kernel(op, full, known); kernel.isValid()) {
    registrations.push_back({DispatchKey::CUDA, std::move(kernel)});
  }
  if (kind == OperatorClass::composite && known && is_one_step_on_device(op, full)) {
    registrations.push_back({DispatchKey::AutogradCUDA, cpu_way_kernel()});
  }
  if (known) {
    static const std::vector<DispatchKey> others = other_backends();
    const bool takes_sparse = find_sparse_operator(full) != nullptr;
    for (const DispatchKey key : others) {
      if (takes_sparse && key == DispatchKey::SparseCPU) continue;
      if (op.hasKernelForDispatchKey(key)) registrations.push_back({key, refusing_layout_kernel()});
    }
  }
  return {kind, std::move(registrations)};
}

// ---- operators that are defined while the guard lives
//
// The dispatcher tells a listener of a new definition while it holds its lock, before any kernel of it can
// be registered or called. Registering through the public interface would deadlock there; the operator's
// entry (dispatcher_entry.h) has the same function for callers that hold the lock.

struct LateKernel {
  OperatorHandle op;
  DispatchKey key;
  c10::impl::OperatorEntry::AnnotatedKernelContainerIterator position;
};

// Refuses what is defined after `armed`; the list belongs to the guard and is touched under the lock only.
class LateDefinitions final : public c10::OpRegistrationListener {
 public:
  LateDefinitions(std::vector<LateKernel>& late, const std::atomic<bool>& armed) : late_(late), armed_(armed) {}

  void onOperatorRegistered(const OperatorHandle& op) override {
    if (!armed_) return;
    Plan planned = plan(op, false);
    const auto put = [&](DispatchKey key, c10::KernelFunction kernel, const char* debug) {
      const auto position =
          entry_of(op).registerKernel(Dispatcher::singleton(), key, std::move(kernel), std::nullopt, nullptr, debug);
      late_.push_back({op, key, position});
    };
    for (Registration& registration : planned.registrations) {
      put(registration.key, std::move(registration.kernel), kGuardsKernel);
      if (check_mode::on()) put(registration.key, noting_kernel(), kNotingKernel);
    }
  }

  void onOperatorDeregistered(const OperatorHandle& op) override {
    std::erase_if(late_, [&](const LateKernel& late) {
      if (late.op != op) return false;
      entry_of(op).deregisterKernel_(Dispatcher::singleton(), late.key, late.position);
      return true;
    });
  }

 private:
  std::vector<LateKernel>& late_;
  const std::atomic<bool>& armed_;
};

// Adding a listener runs it under the dispatcher's lock: the way to take late kernels back.
class TakeBack final : public c10::OpRegistrationListener {
 public:
  explicit TakeBack(std::vector<LateKernel>& late) : late_(late) {}
  void onOperatorRegistered(const OperatorHandle&) override {
    for (const LateKernel& late : late_) {
      entry_of(late.op).deregisterKernel_(Dispatcher::singleton(), late.key, late.position);
    }
    late_.clear();
  }
  void onOperatorDeregistered(const OperatorHandle&) override {}

 private:
  std::vector<LateKernel>& late_;
};

// The dispatcher warns once per process that a kernel is overridden, which is what the guard is for.
class SilentHandler final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// The check: before each kernel of ours, of the guard's and of the switch's, one that notes what it refuses.
void note_refusals(const OperatorHandle& op, std::vector<c10::RegistrationHandleRAII>& kernels) {
  static const std::vector<DispatchKey> keys = [] {
    std::vector<DispatchKey> all = other_backends();
    all.insert(all.end(), std::begin(kAutogradKeys), std::end(kAutogradKeys));
    all.insert(all.end(), {DispatchKey::BackendSelect, DispatchKey::CPU, DispatchKey::CUDA});
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }();
  for (const DispatchKey key : keys) {
    if (!is_ours_at(op, key)) continue;
    kernels.push_back(Dispatcher::singleton().registerImpl(op.operator_name(), key, noting_kernel(), std::nullopt,
                                                           nullptr, kNotingKernel));
  }
}

}  // namespace

// An operator as the guard left it: what its calls meet on the way to a dense CPU or CUDA tensor.
struct Watched {
  static constexpr DispatchKey kKeys[] = {
      DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA, DispatchKey::BackendSelect,  DispatchKey::CPU,
      DispatchKey::CUDA,        DispatchKey::SparseCPU,    DispatchKey::ADInplaceOrView};
  static constexpr std::size_t kCount = std::size(kKeys);

  // Of a refused one only what may be met before its refusal.
  Watched(const OperatorHandle& handle, bool refused) : op(handle), is_refused(refused) {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (is_looked_at(kKeys[i]) && op.hasComputedKernelForDispatchKey(kKeys[i])) kernels[i] = now(kKeys[i]);
    }
  }
  [[nodiscard]] bool unchanged() const {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!is_looked_at(kKeys[i])) continue;
      if (op.hasComputedKernelForDispatchKey(kKeys[i]) != kernels[i].isValid()) return false;
      if (kernels[i].isValid() && !kernels[i]._equalsBoxedAndUnboxed(now(kKeys[i]))) return false;
    }
    return true;
  }
  [[nodiscard]] const c10::KernelFunction& now(DispatchKey key) const { return kernel_at(op, key); }

  [[nodiscard]] bool is_looked_at(DispatchKey key) const {
    return !is_refused || (key != DispatchKey::CPU && key != DispatchKey::CUDA && key != DispatchKey::SparseCPU);
  }

  OperatorHandle op;
  bool is_refused;
  c10::KernelFunction kernels[kCount];
};

// Guards do not nest (the switch keeps one).
std::atomic<const Guard*> in_force = nullptr;

struct Guard::Installed {
  std::vector<c10::RegistrationHandleRAII> kernels;
  std::vector<Watched> watched;
  std::vector<LateKernel> late;
  std::atomic<bool> armed = false;
  std::vector<c10::DeviceType> devices = other_devices();
  std::optional<c10::RegistrationHandleRAII> listener;
  std::mutex checking;
  std::string replaced;  // an operator whose kernel was found to be another library's
};

Guard::Guard() : installed_(std::make_unique<Installed>()) {
  SilentHandler silent;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  Dispatcher& dispatcher = Dispatcher::singleton();
  // The listener first, so that no definition falls between the walk and it. It also meets every operator
  // already there, which is the walk's business: it is armed once those have passed.
  installed_->listener.emplace(
      dispatcher.addRegistrationListener(std::make_unique<LateDefinitions>(installed_->late, installed_->armed)));
  installed_->armed = true;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op) continue;
    Plan planned = plan(*op, true);
    for (ForeignKernel& foreign : foreign_kernels(*op))
      planned.registrations.push_back({foreign.key, refusing_foreign_kernel(std::move(foreign.place))});
    for (Registration& registration : planned.registrations) {
      installed_->kernels.push_back(dispatcher.registerImpl(name, registration.key, std::move(registration.kernel),
                                                            std::nullopt, nullptr, kGuardsKernel));
    }
    if (check_mode::on()) note_refusals(*op, installed_->kernels);
    installed_->watched.emplace_back(*op, planned.kind == OperatorClass::refused);
  }
  keep_subnormals();
  graph_check::mark(true);
  in_force = this;
}

void Guard::check_kernels() const {
  const std::lock_guard lock(installed_->checking);
  if (other_devices() != installed_->devices) {
    refuse("a backend for another device", "was loaded while isobit is on and is not certified",
           "load it before switching isobit on: its tensors are refused then");
  }
  for (const Watched& watched : installed_->watched) {
    if (!installed_->replaced.empty()) break;
    if (!watched.unchanged()) installed_->replaced = watched.op.operator_name().name;
  }
  for (const LateKernel& late : installed_->late) {  // refusals of operators that were defined since
    if (check_mode::on() || !installed_->replaced.empty()) break;
    // Those of torch's own Python (torch._prims, say) call operators.
    if (!late.position->kernel._equalsBoxedAndUnboxed(kernel_at(late.op, late.key)) && !is_torchs(late.op, late.key))
      installed_->replaced = late.op.operator_name().name;
  }
  if (!installed_->replaced.empty()) {
    refuse(installed_->replaced, "has had its kernel replaced by another library and is not certified",
           "load that library before switching isobit on, or do without it");
  }
}

void check_kernels() {
  if (const Guard* guard = in_force) check_mode::or_note([&] { guard->check_kernels(); });
}

namespace {

// How many libraries the process has loaded, as the dynamic linker counts them.
std::uint64_t libraries_loaded() {
  std::uint64_t loaded = 0;
  const auto first = [](dl_phdr_info* info, std::size_t, void* count) {
    *static_cast<std::uint64_t*>(count) = info->dlpi_adds;
    return 1;  // the counter is the same in all
  };
  dl_iterate_phdr(first, &loaded);
  return loaded;
}

}  // namespace

void check_kernels_in_turn() {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kEvery = 16;
  constexpr Clock::duration kApart = std::chrono::milliseconds(250);
  static std::atomic<std::uint64_t> libraries = 0;
  static std::atomic<std::int64_t> steps = 0;
  static std::atomic<Clock::rep> looked = 0;
  const std::uint64_t loaded = libraries_loaded();
  const bool more = libraries.exchange(loaded, std::memory_order_relaxed) != loaded;
  if (steps.fetch_add(1, std::memory_order_relaxed) < kEvery && !more) return;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  if (!more && now - looked.load(std::memory_order_relaxed) < kApart.count()) return;
  steps.store(0, std::memory_order_relaxed), looked.store(now, std::memory_order_relaxed);
  check_kernels();
}

Guard::~Guard() {
  in_force = nullptr;
  graph_check::mark(false);
  if (!installed_->late.empty()) {
    Dispatcher::singleton().addRegistrationListener(std::make_unique<TakeBack>(installed_->late));
  }
  installed_->listener.reset();
}

}  // namespace isobit::aten
