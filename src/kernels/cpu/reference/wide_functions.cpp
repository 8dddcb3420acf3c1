// Functions by binary64 formulas, element by element.
#include "kernels/dispatch/kernel_table.h"
#include "kernels/formulas/wide_formulas.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

constexpr std::int64_t kSmallest = 512;

}  // namespace

// Not in the unnamed namespace: the vector builds leave some functions to them.
void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n);
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n);

void wide_unary(WideUnary op, const float* x, float* y, std::int64_t n) {
  parallel_for(0, n, kSmallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = ISOBIT_ISA::wide::apply(op, x[i]);
  });
}
void wide_binary(WideBinary op, const float* a, const float* b, float* y, std::int64_t n) {
  parallel_for(0, n, kSmallest, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = ISOBIT_ISA::wide::apply(op, a[i], b[i]);
  });
}

void fill_wide_functions(KernelTable& t) {
  t.wide_unary = wide_unary;
  t.wide_binary = wide_binary;
}

}  // namespace isobit::kernels::reference
