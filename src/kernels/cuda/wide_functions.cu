// Functions by binary64 formulas, remainders, selections: the formulas of every other implementation, a thread per
// element.
#include "kernels/formulas/wide_formulas.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  DeviceMap::run(ISOBIT_ISA::WideUnaryFormula{op}, y, n, x);
}
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  DeviceMap::run(ISOBIT_ISA::WideBinaryFormula{op}, y, n, a, b);
}

}  // namespace

void fill_wide_functions(KernelTable& t) {
  t.wide_unary = wide_unary;
  t.wide_binary = wide_binary;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
