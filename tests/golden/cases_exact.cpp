#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/exact_products.h"

namespace isobit::golden {
namespace {

using kernels::Conv2dShape;
using kernels::Fingerprint;
using kernels::MatmulProblem;

struct Product {
  std::int64_t batch, m, n, k;
};

Fingerprint matmul(const Product& s, const Floats& a, const Floats& b, bool addend) {
  const Floats d = uniform(3, s.n);
  Floats c(static_cast<std::size_t>(s.batch * s.m * s.n));
  MatmulProblem p;
  p.batch = s.batch, p.m = s.m, p.n = s.n, p.k = s.k;
  p.a = {a.data(), s.m * s.k, s.k, 1}, p.b = {b.data(), s.k * s.n, 1, s.k};
  if (addend) p.addend = {d.data(), 0, 0, 1}, p.alpha = 0.7f, p.beta = -1.3f;
  p.c = c.data(), p.c_batch_stride = s.m * s.n, p.c_row_stride = s.n;
  kernels::exact3_matmul(p);
  return Digest().add(c).result();
}

Fingerprint ordinary(const Product& s, bool addend) {
  return matmul(s, uniform(1, s.batch * s.m * s.k), uniform(2, s.batch * s.k * s.n), addend);
}

Fingerprint of_any_magnitude(const Product& s) {
  return matmul(s, hostile(1, s.batch * s.m * s.k, true), hostile(2, s.batch * s.k * s.n), false);
}

Fingerprint conv2d(const Conv2dShape& s) {
  const Floats x = uniform(11, s.n * s.ci * s.h * s.w), bias = uniform(13, s.co);
  const Floats weight = uniform(12, s.co * (s.ci / s.groups) * s.kh * s.kw);
  const Floats dy = hostile(14, s.n * s.co * s.out_h() * s.out_w());
  Floats y(dy.size()), dx(x.size()), dweight(weight.size());
  kernels::exact3_conv2d_forward(s, x.data(), weight.data(), bias.data(), y.data());
  kernels::exact3_conv2d_input_gradient(s, dy.data(), weight.data(), dx.data());
  kernels::exact3_conv2d_weight_gradient(s, x.data(), dy.data(), dweight.data());
  return Digest().add(y).add(dx).add(dweight).result();
}

}  // namespace

void add_exact_product_cases(std::vector<Case>& cases) {
  const auto add = [&](const char* name, std::function<Fingerprint()> compute) {
    cases.push_back({std::string("exact3.") + name, std::move(compute)});
  };
  add("matmul", [] { return ordinary({1, 61, 67, 300}, false); });
  add("matmul_long", [] { return ordinary({1, 3, 5, 50'000}, false); });
  add("matmul_addend", [] { return ordinary({3, 7, 20, 40}, true); });
  add("matmul_any_magnitude", [] { return of_any_magnitude({2, 17, 19, 13}); });
  add("matmul_empty", [] { return ordinary({1, 4, 6, 0}, false); });
  add("conv2d",
      [] { return conv2d({.n = 3, .ci = 4, .h = 9, .w = 10, .co = 6, .kh = 3, .kw = 3, .pad_h = 1, .pad_w = 1}); });
  add("conv2d_strided_groups", [] {
    return conv2d({.n = 2,
                   .ci = 6,
                   .h = 11,
                   .w = 9,
                   .co = 4,
                   .kh = 3,
                   .kw = 2,
                   .stride_h = 2,
                   .stride_w = 3,
                   .pad_h = 2,
                   .dilation_w = 2,
                   .groups = 2});
  });
}

}  // namespace isobit::golden
