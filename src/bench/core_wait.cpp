#include "bench/core_wait.h"

#include <fmt/format.h>

#include <fstream>

namespace isobit::bench {
namespace {

constexpr double kQuiet = 0.05;

}  // namespace

CoreWait::CoreWait() : start_(count()) {}

std::optional<CoreWait::Count> CoreWait::count() {
  std::ifstream file("/proc/thread-self/schedstat");
  Count count;
  if (!(file >> count.ran >> count.waited)) return {};
  return count;
}

std::optional<double> CoreWait::share() const {
  const std::optional<Count> now = count();
  if (!start_ || !now) return {};
  const auto ran = static_cast<double>(now->ran - start_->ran),
             waited = static_cast<double>(now->waited - start_->waited);
  if (ran + waited <= 0) return {};
  return waited / (ran + waited);
}

std::string wait_note(std::optional<double> share) {
  if (!share || *share < kQuiet) return "";
  return fmt::format(
      "note: others use the cores: {:.0f} % of the time this program waited for one; measure again where "
      "nothing else runs\n",
      100 * *share);
}

}  // namespace isobit::bench
