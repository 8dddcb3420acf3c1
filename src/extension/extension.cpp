#include "extension/extension.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aten/check_mode.h"
#include "aten/classification.h"
#include "aten/graph_check.h"
#include "aten/guard.h"
#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "aten/optimizer_steps.h"
#include "aten/refusal.h"
#include "aten/stock_threads.h"
#include "aten/tensor_memory.h"
#include "aten/torchscript_guard.h"
#include "contract/host_inverse.h"
#include "contract/host_power.h"
#include "contract/platform.h"
#include "extension/reported.h"
#include "kernels/device.h"
#include "kernels/isa.h"
#include "kernels/product_plans.h"
#include "kernels/threads.h"
#include "trace/tensor_fingerprint.h"

namespace {

thread_local std::string message;
thread_local bool is_refusal = false;

using isobit::extension::reported;
using isobit::extension::tensor_of;

std::mutex mutex;
// Never destroyed: a process may end with the switch on, when torch's own tables are gone already.
auto& switches = *new std::vector<std::unique_ptr<isobit::aten::OperatorSwitch>>;

// Of modules entered. A thread may end within one, when what the path is kept in is gone: so there is nothing to undo.
thread_local std::vector<isobit::aten::ModulePosition> entered;

// What a Python object of pybind11 holds.
template <class Held>
Held& held_by(const void* object, std::int64_t header) {
  return **reinterpret_cast<Held* const*>(static_cast<const char*>(object) + header);
}

// Undefined for a null pointer.
at::Tensor given(void* tensor) { return tensor == nullptr ? at::Tensor() : tensor_of(tensor); }

isobit::aten::Order order_of(int together) {
  return together != 0 ? isobit::aten::Order::all_at_once : isobit::aten::Order::one_by_one;
}

// As reported; "" where the step was not taken.
template <class Step>
const char* reported_if_taken(Step&& step) {
  bool taken = false;
  const char* const text = reported([&] { taken = step(); });
  return text == nullptr && !taken ? "" : text;
}

void write_hex(const isobit::kernels::Fingerprint& fingerprint, char* hex) {
  const std::string text = isobit::kernels::to_hex(fingerprint);
  std::memcpy(hex, text.c_str(), text.size() + 1);
}

void require_certified() {
  if (isobit::aten::check_mode::on()) {
    throw std::logic_error("no fingerprint within isobit check: what it computes is not certified");
  }
}

struct ScalarFunction {
  std::string_view name;
  double (*function)(double);
};
constexpr ScalarFunction kScalarFunctions[] = {
    {"acos", isobit::contract::acos_rounded},   {"asin", isobit::contract::asin_rounded},
    {"atan", isobit::contract::atan_rounded},   {"cbrt", isobit::contract::cbrt_rounded},
    {"cos", isobit::contract::cos_rounded},     {"cosh", isobit::contract::cosh_rounded},
    {"erf", isobit::contract::erf_rounded},     {"exp", isobit::contract::exp_rounded},
    {"exp2", isobit::contract::exp2_rounded},   {"expm1", isobit::contract::expm1_rounded},
    {"log", isobit::contract::log_rounded},     {"log10", isobit::contract::log10_rounded},
    {"log1p", isobit::contract::log1p_rounded}, {"log2", isobit::contract::log2_rounded},
    {"sin", isobit::contract::sin_rounded},     {"sinh", isobit::contract::sinh_rounded},
    {"tan", isobit::contract::tan_rounded},     {"tanh", isobit::contract::tanh_rounded},
};

}  // namespace

namespace isobit::extension {
void set_message(const char* text, const std::exception* error) {
  ::message = text;
  is_refusal = error != nullptr && aten::is_refusal(*error);
}
const char* message() { return ::message.c_str(); }
}  // namespace isobit::extension

int isobit_is_refusal() { return is_refusal ? 1 : 0; }

const char* isobit_enable(const char* products) {
  return reported([products] {
    const std::lock_guard lock(mutex);
    const auto tier = isobit::contract::parse_products(products);
    if (!tier) throw std::invalid_argument(std::string("unknown products '") + products + "'");
    switches.push_back(std::make_unique<isobit::aten::OperatorSwitch>(*tier));
  });
}

const char* isobit_disable() {
  return reported([] {
    const std::lock_guard lock(mutex);
    if (switches.empty()) throw std::logic_error("isobit_disable without isobit_enable");
    switches.pop_back();
  });
}

const char* isobit_products() {
  message = name(isobit::aten::OperatorSwitch::products());
  return message.c_str();
}

int isobit_is_on() { return isobit::aten::OperatorSwitch::on() ? 1 : 0; }

const char* isobit_set_isa(const char* name) {
  return reported([name] {
    const auto isa = isobit::kernels::parse_isa(name);
    if (!isa) throw std::invalid_argument(std::string("unknown instruction set '") + name + "'");
    isobit::kernels::set_isa(*isa, std::string_view(name) == "auto");
  });
}

const char* isobit_set_threads(int count) {
  return reported([count] { isobit::kernels::set_thread_count(count); });
}

const char* isobit_isa() {
  message = isobit::kernels::name(isobit::kernels::active_isa());
  return message.c_str();
}

std::int64_t isobit_release_memory() { return static_cast<std::int64_t>(isobit::aten::release_tensor_memory()); }

void isobit_threads_from_torch() {
  isobit::kernels::give_way_to_others(true);
  isobit::kernels::set_thread_count_source([] { return isobit::aten::stock_thread_count(); });
}

const char* isobit_check_graph(void* const* roots, std::int64_t count) {
  return reported([=] {
    std::vector<at::Tensor> tensors;
    for (std::int64_t i = 0; i < count; ++i) tensors.push_back(tensor_of(roots[i]));
    isobit::aten::graph_check::check(tensors);
  });
}

int isobit_operators_observed() { return isobit::aten::graph_check::observes() ? 1 : 0; }

const char* isobit_adam_in_one_pass(void* const* tensors, std::int64_t count, const double* scalars, int decoupled,
                                    int together) {
  return reported_if_taken([=] {
    std::vector<isobit::aten::AdamTensors> all;
    all.reserve(static_cast<std::size_t>(count));
    for (void* const* t = tensors; t != tensors + count; ++t)
      all.push_back({given(t[0]), given(t[count]), given(t[2 * count]), given(t[3 * count]), given(t[4 * count])});
    return isobit::aten::adam_in_one_pass(
        all, {scalars[0], scalars[1], scalars[2], scalars[3], scalars[4], decoupled != 0}, order_of(together));
  });
}

const char* isobit_sgd_in_one_pass(void* const* tensors, std::int64_t count, int buffers, const double* scalars,
                                   int nesterov, int together) {
  return reported_if_taken([=] {
    std::vector<isobit::aten::SgdTensors> all;
    all.reserve(static_cast<std::size_t>(count));
    for (void* const* t = tensors; t != tensors + count; ++t)
      all.push_back({given(t[0]), given(t[count]), given(buffers ? t[2 * count] : nullptr)});
    return isobit::aten::sgd_in_one_pass(all, {scalars[0], scalars[1], scalars[2], scalars[3], nesterov != 0},
                                         order_of(together));
  });
}

const char* isobit_begin_check(void (*note)(const char*)) {
  return reported([note] { isobit::aten::check_mode::begin(note); });
}

int isobit_is_check() { return isobit::aten::check_mode::on() ? 1 : 0; }

const char* isobit_guard_scripts() {
  return reported([] { isobit::aten::guard_script_operators(); });
}

const char* isobit_check_script(const void* script, std::int64_t header, int method) {
  if (!isobit::aten::OperatorSwitch::on()) return nullptr;
  return reported([=] {
    if (method) {
      auto& held = held_by<torch::jit::Method>(script, header);
      isobit::aten::check_script(held.function(), held.raw_owner()->compilation_unit());
    } else {
      auto& held = held_by<torch::jit::StrongFunctionPtr>(script, header);
      isobit::aten::check_script(*held.function_, held.cu_);
    }
  });
}

const char* isobit_forget_plans(const void* unit, std::int64_t header) {
  return reported([=] { isobit::aten::forget_plans(held_by<torch::jit::CompilationUnit>(unit, header)); });
}

const char* isobit_release_plans() {
  return reported([] { isobit::aten::release_plans(); });
}

const char* isobit_fingerprint(void* tensor, char* hex) {
  return reported([=] {
    require_certified();
    write_hex(isobit::trace::fingerprint(tensor_of(tensor)), hex);
  });
}

const char* isobit_fingerprint_list(void* const* tensors, const char* const* names, std::int64_t count, char* hex) {
  return reported([=] {
    require_certified();
    std::vector<isobit::trace::NamedTensor> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back({names[i], tensor_of(tensors[i])});
    write_hex(isobit::trace::fingerprint(std::move(list)), hex);
  });
}

int isobit_enter_module(std::uint64_t module) try {
  isobit::aten::ModulePosition around{};
  entered.reserve(entered.size() + 1);
  if (!isobit::aten::enter_known_module(module, around)) return 0;
  entered.push_back(around);
  return static_cast<int>(entered.size());
} catch (const std::exception&) {
  return 0;
}

int isobit_enter_new_module(std::uint64_t module, const char* name) try {
  entered.reserve(entered.size() + 1);
  entered.push_back(isobit::aten::enter_new_module(module, name));
  return static_cast<int>(entered.size());
} catch (const std::exception&) {
  return 0;
}

void isobit_leave_module(int n) {
  const auto around = static_cast<std::size_t>(n - 1);
  if (n < 1 || entered.size() <= around) return;
  isobit::aten::leave_module(entered[around]);
  entered.erase(entered.begin() + static_cast<std::ptrdiff_t>(around), entered.end());
}

void isobit_forget_module(std::uint64_t module) { isobit::aten::forget_module(module); }

const char* isobit_begin_step(std::int64_t step) {
  return reported([step] { isobit::aten::begin_step(step); });
}

const char* isobit_check_kernels() {
  return reported([] { isobit::aten::check_kernels(); });
}

const char* isobit_operators(const char** lines) {
  return reported([=] {
    message.clear();
    for (const isobit::aten::OperatorInfo& info : isobit::aten::classify_all()) {
      message.append(to_string(info.kind)).append("\t").append(info.name).append("\t");
      message.append(info.overload).append("\t").append(info.reason).append("\n");
    }
    *lines = message.c_str();
  });
}

const char* isobit_set_ops_command(const char* command) {
  return reported([command] { isobit::aten::set_ops_command(command); });
}

void isobit_set_refusal_type(void* type) { isobit::aten::set_refusal_type(static_cast<_object*>(type)); }

const char* isobit_scalar_functions() {
  static const std::string names = [] {
    std::string all;
    for (const ScalarFunction& one : kScalarFunctions) all.append(all.empty() ? "" : " ").append(one.name);
    return all;
  }();
  return names.c_str();
}

double isobit_scalar_function(int function, double x) { return kScalarFunctions[function].function(x); }

double isobit_scalar_power(double x, double y) { return isobit::contract::pow_rounded(x, y); }

double isobit_scalar_angle(double y, double x) { return isobit::contract::atan2_rounded(y, x); }

const char* isobit_contract_version() { return isobit::contract::kContractVersion; }

const char* isobit_contract_in_force() {
  message = isobit::contract::contract_name(isobit::aten::OperatorSwitch::products());
  return message.c_str();
}

int isobit_device_count() {
  const auto* backend = isobit::kernels::device_backend();
  return backend == nullptr ? 0 : backend->device_count();
}

const char* isobit_force_product_plan(int tile, std::int64_t chunk_leaves) {
  return reported([tile, chunk_leaves] { isobit::kernels::force_product_plan({tile, chunk_leaves}); });
}

const char* isobit_device_name(int index) {
  if (index < 0 || index >= isobit_device_count()) return "";
  message = isobit::kernels::device_backend()->device_name(index);
  return message.c_str();
}
