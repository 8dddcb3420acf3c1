#include "trace/trace_environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <map>
#include <string>

#include "archive/environment.h"
#include "archive/experiment_text.h"
#include "aten/operator_switch.h"
#include "contract/product_tier.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::trace {
namespace {

// Of stock: how many threads and which of its kernels may decide bits.
std::map<std::string, std::string> settings(bool certified, const std::string& torch) {
  if (certified) {
    return {{"threads", std::to_string(kernels::thread_count())},
            {"isa", std::string(kernels::name(kernels::active_isa()))},
            {"torch", torch}};
  }
  return {{"threads", std::to_string(at::get_num_threads())}, {"isa", at::get_cpu_capability()}, {"torch", torch}};
}

}  // namespace

TraceHeader header_of_this_process() {
  TraceHeader header;
  const bool certified = aten::OperatorSwitch::on();
  const std::string torch = TORCH_VERSION;
  header.torch = torch.substr(0, torch.find('+'));
  header.arithmetic =
      certified ? contract::contract_name(aten::OperatorSwitch::products()) : archive::stock_name(header.torch);
  header.environment = archive::environment_json(settings(certified, header.torch), header.arithmetic);
  return header;
}

}  // namespace isobit::trace
