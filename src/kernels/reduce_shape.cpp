#include "kernels/reduce.h"

namespace isobit::kernels {
namespace {

std::int64_t product(const std::int64_t* size, int rank) {
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= size[i];
  return count;
}

}  // namespace

std::int64_t ReduceShape::kept_count() const { return product(kept_size, kept_rank); }
std::int64_t ReduceShape::reduced_count() const { return product(reduced_size, reduced_rank); }

}  // namespace isobit::kernels
