// Point-wise operators, a register of lanes at a time.
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/cpu/vector/lane_map.h"
#include "kernels/cpu/vector/power_lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

// Too many values are alive in these for four registers side by side.
template <>
struct GroupOf<UnaryFormula<Unary::sin>> {
  using type = FloatPair<FloatLanes>;
};
template <>
struct GroupOf<UnaryFormula<Unary::cos>> {
  using type = FloatPair<FloatLanes>;
};

constexpr std::int64_t kPowersAThread = 2048;  // at least
void general_power_each(const float* x, const float* p, float* y, std::int64_t n) {
  parallel_for(0, n, kPowersAThread, [=](std::int64_t begin, std::int64_t end) {
    powers_in_blocks(x + begin, p + begin, 1, y + begin, end - begin);
  });
}
void general_power_all(const float* x, float p, float* y, std::int64_t n) {
  parallel_for(0, n, kPowersAThread, [=](std::int64_t begin, std::int64_t end) {
    powers_in_blocks(x + begin, &p, 0, y + begin, end - begin);
  });
}

}  // namespace

void fill_pointwise(KernelTable& t) {
  PointwiseKernels<LaneMap>::fill(t);
  t.general_power_each = general_power_each;
  t.general_power_all = general_power_all;
}

}  // namespace isobit::kernels::ISOBIT_ISA
