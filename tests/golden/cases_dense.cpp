#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/conv2d.h"
#include "kernels/matmul.h"

namespace isobit::golden {
namespace {

using kernels::Conv2dShape;
using kernels::Fingerprint;
using kernels::MatmulProblem;

struct MatmulSize {
  std::int64_t batch, m, n, k;
};

enum class Layout { plain, transposed_a, transposed_b, broadcast_b };

Fingerprint matmul(MatmulSize s, Layout layout, bool hostile_inputs, bool addend) {
  const auto make = [&](std::uint64_t key, std::int64_t n) {
    return hostile_inputs ? hostile(key, n, key == 2) : uniform(key, n);
  };
  const Floats a = make(1, s.batch * s.m * s.k), b = make(2, s.batch * s.k * s.n), d = make(3, s.m * s.n);
  Floats c(static_cast<std::size_t>(s.batch * s.m * s.n));
  MatmulProblem p;
  p.batch = s.batch, p.m = s.m, p.n = s.n, p.k = s.k;
  p.a = {a.data(), s.m * s.k, s.k, 1};
  p.b = {b.data(), s.k * s.n, s.n, 1};
  if (layout == Layout::transposed_a) p.a.row_stride = 1, p.a.column_stride = s.m;
  if (layout == Layout::transposed_b) p.b.row_stride = 1, p.b.column_stride = s.k;
  if (layout == Layout::broadcast_b) p.b.batch_stride = 0;
  if (addend) p.addend = {d.data(), 0, s.n, 1}, p.alpha = 0.7f, p.beta = -1.3f;
  p.c = c.data();
  p.c_batch_stride = s.m * s.n, p.c_row_stride = s.n;
  kernels::matmul(p);
  return Digest().add(c).result();
}

Fingerprint conv2d(const Conv2dShape& s) {
  const std::int64_t x_count = s.n * s.ci * s.h * s.w, w_count = s.co * (s.ci / s.groups) * s.kh * s.kw;
  const std::int64_t y_count = s.n * s.co * s.out_h() * s.out_w();
  const Floats x = uniform(11, x_count), weight = uniform(12, w_count), bias = uniform(13, s.co);
  const Floats dy = uniform(14, y_count);
  Floats y(static_cast<std::size_t>(y_count)), dx(x.size()), dweight(weight.size());
  kernels::conv2d_forward(s, x.data(), weight.data(), bias.data(), y.data());
  kernels::conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
  kernels::conv2d_weight_gradient(s, x.data(), dy.data(), dweight.data());
  return Digest().add(y).add(dx).add(dweight).result();
}

}  // namespace

void add_dense_cases(std::vector<Case>& cases) {
  const auto add_matmul = [&](const char* name, MatmulSize size, Layout layout, bool hostile_inputs, bool addend) {
    cases.push_back({name, [=] { return matmul(size, layout, hostile_inputs, addend); }});
  };
  add_matmul("matmul.plain", {1, 61, 67, 300}, Layout::plain, false, false);
  add_matmul("matmul.leaves", {1, 13, 37, 2600}, Layout::plain, false, false);
  add_matmul("matmul.hostile", {2, 17, 19, 1030}, Layout::plain, true, false);
  add_matmul("matmul.transposed_a", {1, 33, 65, 515}, Layout::transposed_a, false, false);
  add_matmul("matmul.transposed_b", {1, 65, 33, 515}, Layout::transposed_b, false, false);
  add_matmul("matmul.batched", {5, 9, 21, 130}, Layout::plain, false, false);
  add_matmul("matmul.broadcast", {5, 9, 21, 130}, Layout::broadcast_b, false, false);
  add_matmul("matmul.vector", {1, 201, 1, 1025}, Layout::plain, false, false);
  add_matmul("matmul.row", {1, 1, 201, 1025}, Layout::plain, false, false);
  add_matmul("matmul.empty_k", {1, 5, 7, 0}, Layout::plain, false, true);
  add_matmul("matmul.addmm", {1, 31, 29, 700}, Layout::transposed_b, false, true);

  const auto add_conv = [&](const char* name, const Conv2dShape& shape) {
    cases.push_back({name, [=] { return conv2d(shape); }});
  };
  add_conv("conv2d.lenet_first",
           {.n = 3, .ci = 1, .h = 28, .w = 28, .co = 6, .kh = 5, .kw = 5, .pad_h = 2, .pad_w = 2});
  add_conv("conv2d.lenet_second", {.n = 2, .ci = 6, .h = 14, .w = 14, .co = 16, .kh = 5, .kw = 5});
  add_conv("conv2d.padded", {.n = 2, .ci = 20, .h = 9, .w = 11, .co = 33, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1});
  add_conv("conv2d.leaves", {.n = 2, .ci = 70, .h = 7, .w = 6, .co = 24, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1});
  add_conv("conv2d.strided", {.n = 2,
                              .ci = 16,
                              .h = 13,
                              .w = 10,
                              .co = 17,
                              .kh = 3,
                              .kw = 3,
                              .stride_h = 2,
                              .stride_w = 2,
                              .pad_h = 1,
                              .pad_w = 1});
  add_conv("conv2d.pointwise_strided",
           {.n = 2, .ci = 19, .h = 9, .w = 8, .co = 23, .kh = 1, .kw = 1, .stride_h = 2, .stride_w = 2});
  add_conv("conv2d.stem", {.n = 1,
                           .ci = 3,
                           .h = 31,
                           .w = 29,
                           .co = 16,
                           .kh = 7,
                           .kw = 7,
                           .stride_h = 2,
                           .stride_w = 2,
                           .pad_h = 3,
                           .pad_w = 3});
  add_conv("conv2d.dilated_groups", {.n = 2,
                                     .ci = 8,
                                     .h = 12,
                                     .w = 15,
                                     .co = 12,
                                     .kh = 3,
                                     .kw = 2,
                                     .pad_h = 2,
                                     .pad_w = 1,
                                     .dilation_h = 2,
                                     .dilation_w = 3,
                                     .groups = 4});
}

}  // namespace isobit::golden
