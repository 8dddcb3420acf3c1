#include "aten/generator_scope.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <string_view>

namespace isobit::aten {

struct GeneratorScope::Own {
  static constexpr std::string_view kName = "isobit generator";
  static constexpr std::uint8_t kNumber = 202;
  at::Generator generator;
};

GeneratorScope::GeneratorScope(std::uint64_t seed)
    : own_(std::make_shared<Own>(Own{at::detail::createCPUGenerator(seed)})), propagated_(own_) {}

void GeneratorScope::seed(std::uint64_t seed) {
  const std::lock_guard lock(own_->generator.mutex());
  own_->generator.set_current_seed(seed);
}

at::Generator default_generator() {
  const GeneratorScope::Own* own = Propagated<GeneratorScope::Own>::current();
  return own == nullptr ? at::detail::getDefaultCPUGenerator() : own->generator;
}

}  // namespace isobit::aten
