#include "extension/extension.h"

#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "aten/operator_switch.h"
#include "contract/platform.h"
#include "kernels/device.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace {

thread_local std::string message;

// Exceptions do not cross a C interface.
template <class Function>
const char* reported(Function&& function) {
  try {
    function();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "unknown error";
  }
  return message.c_str();
}

std::mutex mutex;
std::vector<std::unique_ptr<isobit::aten::OperatorSwitch>> switches;

}  // namespace

const char* isobit_enable() {
  return reported([] {
    const std::lock_guard lock(mutex);
    switches.push_back(std::make_unique<isobit::aten::OperatorSwitch>());
  });
}

const char* isobit_disable() {
  return reported([] {
    const std::lock_guard lock(mutex);
    if (switches.empty()) throw std::logic_error("isobit_disable without isobit_enable");
    switches.pop_back();
  });
}

const char* isobit_set_isa(const char* name) {
  return reported([name] {
    const auto isa = isobit::kernels::parse_isa(name);
    if (!isa) throw std::invalid_argument(std::string("unknown instruction set '") + name + "'");
    isobit::kernels::set_isa(*isa);
  });
}

const char* isobit_set_threads(int count) {
  return reported([count] { isobit::kernels::set_thread_count(count); });
}

const char* isobit_contract_version() { return isobit::contract::kContractVersion; }

int isobit_device_count() {
  const auto* backend = isobit::kernels::device_backend();
  return backend == nullptr ? 0 : backend->device_count();
}

const char* isobit_device_name(int index) {
  if (index < 0 || index >= isobit_device_count()) return "";
  message = isobit::kernels::device_backend()->device_name(index);
  return message.c_str();
}
