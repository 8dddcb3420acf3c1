#include "aten/tensordot.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <cstdint>
#include <vector>

namespace isobit::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using Sizes = std::vector<std::int64_t>;

std::int64_t wrapped(std::int64_t dim, const Tensor& tensor) {
  const std::int64_t count = tensor.dim();
  TORCH_CHECK_INDEX(-count <= dim && dim < count, "aten::tensordot: dimension ", dim, " of a tensor with ", count);
  return dim < 0 ? dim + count : dim;
}

// A matrix of the tensor's dimensions in this order.
Tensor as_matrix(const Tensor& tensor, const Sizes& order, std::int64_t rows, std::int64_t columns) {
  return tensor.permute(order).reshape({rows, columns});
}

struct Side {
  Sizes free, sizes;  // the dimensions that stay, and how long they are
  std::int64_t size = 1;
};

Side free_dimensions(const Tensor& tensor, const Sizes& contracted) {
  std::vector<bool> gone(tensor.dim());
  for (const std::int64_t dim : contracted) {
    TORCH_CHECK(!gone[dim], "aten::tensordot: dimension ", dim, " is named twice");
    gone[dim] = true;
  }
  Side side;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (gone[dim]) continue;
    side.free.push_back(dim);
    side.sizes.push_back(tensor.size(dim));
    side.size *= tensor.size(dim);
  }
  return side;
}

Tensor tensordot(const Tensor& self, const Tensor& other, IntArrayRef dims_self, IntArrayRef dims_other) {
  TORCH_CHECK(dims_self.size() == dims_other.size(),
              "aten::tensordot: as many dimensions of each tensor expected, got ", dims_self.size(), " and ",
              dims_other.size());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "aten::tensordot: tensors of one type expected, got ",
              self.scalar_type(), " and ", other.scalar_type());
  Tensor a = self, b = other;
  Sizes of_a, of_b;
  std::int64_t contracted = 1;
  for (std::size_t i = 0; i < dims_self.size(); ++i) {
    of_a.push_back(wrapped(dims_self[i], a));
    of_b.push_back(wrapped(dims_other[i], b));
    const std::int64_t length = a.size(of_a[i]), other_length = b.size(of_b[i]);
    // A single entry meets the sum of the other side, as in stock.
    if (length == 1 && other_length != 1) {
      b = b.sum({of_b[i]}, /*keepdim=*/true);
    } else if (other_length == 1 && length != 1) {
      a = a.sum({of_a[i]}, /*keepdim=*/true);
    } else {
      TORCH_CHECK(length == other_length, "aten::tensordot: sizes ", length, " and ", other_length, " do not match");
      contracted *= length;
    }
  }
  const Side left = free_dimensions(a, of_a), right = free_dimensions(b, of_b);
  Sizes order_a = left.free, order_b = of_b, sizes = left.sizes;
  order_a.insert(order_a.end(), of_a.begin(), of_a.end());
  order_b.insert(order_b.end(), right.free.begin(), right.free.end());
  sizes.insert(sizes.end(), right.sizes.begin(), right.sizes.end());
  return at::mm(as_matrix(a, order_a, left.size, contracted), as_matrix(b, order_b, contracted, right.size))
      .reshape(sizes);
}

}  // namespace

void register_tensordot(torch::Library& library) { library.impl("tensordot", TORCH_FN(tensordot)); }

}  // namespace isobit::aten
