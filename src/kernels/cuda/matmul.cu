// Matrix products on a device: matrix_product.h over tile_product.h.
#include "kernels/cuda/matrix_product.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

void matmul(const MatmulProblem& problem) {
  matmul_as_planned(problem, [](const ProductShape& s, int processors) { return plan_product(s, processors); });
}

}  // namespace

void fill_matmul(KernelTable& t) { t.matmul = matmul; }

}  // namespace isobit::kernels::ISOBIT_CUDA
