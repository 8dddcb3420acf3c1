#include "kernels/product_plans.h"

#include <bit>
#include <stdexcept>
#include <string>

namespace isobit::kernels {
namespace {

ForcedPlan forced;

}  // namespace

void force_product_plan(ForcedPlan plan) {
  constexpr std::int64_t kMost = std::int64_t{1} << 21;
  const bool split = plan.chunk_leaves > 0 && plan.chunk_leaves <= kMost &&
                     std::has_single_bit(static_cast<std::uint64_t>(plan.chunk_leaves));
  if (plan.tile < -1 || plan.tile > 3 || (plan.tile >= 0 && !split)) {
    throw std::invalid_argument(
        "a product's plan: expected tile -1 (as planned) to 3 and, unless -1, leaves of a chunk that are a "
        "power of two up to 2^21, not tile " +
        std::to_string(plan.tile) + " and " + std::to_string(plan.chunk_leaves) + " leaves");
  }
  forced = plan;
}

const ForcedPlan& forced_product_plan() { return forced; }

}  // namespace isobit::kernels
