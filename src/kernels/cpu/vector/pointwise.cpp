// Point-wise operators, a register of lanes at a time.
#include "kernels/formulas/pointwise_kernels.h"
#include "kernels/cpu/vector/lane_map.h"

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

}  // namespace

void fill_pointwise(KernelTable& t) { PointwiseKernels<LaneMap>::fill(t); }

}  // namespace isobit::kernels::ISOBIT_ISA
