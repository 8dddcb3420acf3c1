#include "train/arithmetic.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <mutex>
#include <stdexcept>

#include "archive/experiment_text.h"
#include "aten/operator_switch.h"
#include "contract/platform.h"
#include "kernels/threads.h"

namespace isobit::train {
namespace {

// "Intel(R) oneAPI ... Version 2024.2": one line, without the advertisement of further lines.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string contract_of(const ArithmeticSettings& arithmetic) {
  return arithmetic.is_stock() ? archive::stock_name(TORCH_VERSION) : contract::contract_name(products_of(arithmetic));
}

ArithmeticSettings arithmetic_of(std::string_view contract) {
  if (archive::is_stock(contract)) return {"stock"};
  return {"isobit", std::string(name(contract::products_of(contract)))};
}

ArithmeticSettings asked_arithmetic(std::string_view experiment) {
  return {archive::asks_for_stock(experiment) ? "stock" : "isobit", archive::asked_products(experiment)};
}

contract::ProductTier products_of(const ArithmeticSettings& arithmetic) {
  return contract::parse_products(arithmetic.products).value_or(contract::ProductTier::ordered);
}

void seed_stock(std::uint64_t seed) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::map<std::string, std::string> stock_environment() {
  const at::Context& context = at::globalContext();
  return {{"arithmetic", "stock"},
          {"cpu_capability", at::get_cpu_capability()},
          {"mkl", at::hasMKL() ? first_line(at::get_mkl_version()) : "none"},
          {"onednn", context.userEnabledMkldnn() ? first_line(at::get_mkldnn_version()) : "off"},
          {"openmp", first_line(at::get_openmp_version())},
          {"deterministic_algorithms", "warn only"}};
}

struct ArithmeticScope::Isobit {
  explicit Isobit(contract::ProductTier products) : on(products) {}
  aten::OperatorSwitch on;
};

struct ArithmeticScope::Stock {
  Stock() {
    if (aten::OperatorSwitch::on()) throw std::logic_error("stock arithmetic while the operator switch is on");
    at::set_num_threads(kernels::thread_count());
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  }
  ~Stock() {
    at::globalContext().setDeterministicAlgorithms(deterministic, warn_only);
    at::set_num_threads(threads);
  }
  Stock(const Stock&) = delete;
  Stock& operator=(const Stock&) = delete;

  int threads = at::get_num_threads();
  bool deterministic = at::globalContext().deterministicAlgorithms();
  bool warn_only = at::globalContext().deterministicAlgorithmsWarnOnly();
};

ArithmeticScope::ArithmeticScope(const Experiment& experiment) {
  if (experiment.arithmetic.is_stock()) stock_ = std::make_unique<Stock>();
  if (!experiment.arithmetic.is_stock()) isobit_ = std::make_unique<Isobit>(products_of(experiment.arithmetic));
}

ArithmeticScope::~ArithmeticScope() = default;

}  // namespace isobit::train
