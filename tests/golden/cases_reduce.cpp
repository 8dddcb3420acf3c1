#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/batch_norm.h"
#include "kernels/loss.h"
#include "kernels/pool2d.h"
#include "kernels/reduce.h"

namespace isobit::golden {
namespace {

using kernels::ChannelShape;
using kernels::Fingerprint;
using kernels::NllShape;
using kernels::Pool2dShape;
using kernels::ReduceShape;
using kernels::Reduction;

// [a, b, c] contiguous, reduced over the middle or over both ends.
ReduceShape reduce_shape(std::int64_t a, std::int64_t b, std::int64_t c, bool middle) {
  ReduceShape s;
  if (middle) {
    s.kept_rank = 2, s.reduced_rank = 1;
    s.kept_size[0] = a, s.kept_stride[0] = b * c, s.kept_size[1] = c, s.kept_stride[1] = 1;
    s.reduced_size[0] = b, s.reduced_stride[0] = c;
  } else {
    s.kept_rank = 1, s.reduced_rank = 2;
    s.kept_size[0] = b, s.kept_stride[0] = c;
    s.reduced_size[0] = a, s.reduced_stride[0] = b * c, s.reduced_size[1] = c, s.reduced_stride[1] = 1;
  }
  return s;
}

Fingerprint reductions(std::int64_t a, std::int64_t b, std::int64_t c, bool middle, bool wild) {
  const ReduceShape s = reduce_shape(a, b, c, middle);
  const Floats x = hostile(21, a * b * c, wild);
  const auto count = static_cast<std::size_t>(middle ? a * c : b);
  Digest digest;
  using Kernel = void (*)(const ReduceShape&, const float*, float*);
  for (const Kernel kernel :
       std::initializer_list<Kernel>{kernels::sum, kernels::mean, kernels::norm2, kernels::maximum, kernels::minimum}) {
    Floats out(count);
    kernel(s, x.data(), out.data());
    digest.add(out);
  }
  std::vector<std::int64_t> index(count);
  kernels::argmax(s, x.data(), index.data());
  return digest.add(index).result();
}

Fingerprint batch_norm(const ChannelShape& shape, bool training) {
  const std::int64_t n = shape.n * shape.c * shape.inner;
  const Floats x = uniform(31, n, -3.0f, 5.0f), dy = uniform(32, n), weight = uniform(33, shape.c);
  const Floats bias = uniform(34, shape.c);
  Floats running_mean = uniform(35, shape.c), running_variance = uniform(36, shape.c, 0.5f, 2.0f);
  Floats y(x.size()), dx(x.size());
  const auto channels = static_cast<std::size_t>(shape.c);
  Floats mean(channels), m2(channels), invstd(channels), dweight(channels), dbias(channels);
  kernels::batch_moments(shape, x.data(), mean.data(), m2.data());
  Digest digest;
  digest.add(mean).add(m2);
  kernels::BatchNormForward forward{.shape = shape,
                                    .x = x.data(),
                                    .weight = weight.data(),
                                    .bias = bias.data(),
                                    .running_mean = running_mean.data(),
                                    .running_variance = running_variance.data(),
                                    .y = y.data(),
                                    .saved_mean = mean.data(),
                                    .saved_invstd = invstd.data()};
  if (training) {
    kernels::batch_norm_training(forward);
  } else {
    kernels::batch_norm_inference(forward);
    mean = running_mean;
    kernels::invstd_of(running_variance.data(), forward.eps, invstd.data(), shape.c);
  }
  kernels::batch_norm_backward({.shape = shape,
                                .training = training,
                                .x = x.data(),
                                .dy = dy.data(),
                                .weight = weight.data(),
                                .mean = mean.data(),
                                .invstd = invstd.data(),
                                .dx = dx.data(),
                                .dweight = dweight.data(),
                                .dbias = dbias.data()});
  return digest.add(y)
      .add(mean)
      .add(invstd)
      .add(running_mean)
      .add(running_variance)
      .add(dx)
      .add(dweight)
      .add(dbias)
      .result();
}

Fingerprint nll(Reduction reduction, bool weighted) {
  const NllShape s{.n = 1100, .classes = 10, .ignore_index = 3, .reduction = reduction};
  const Floats x = uniform(41, s.n * s.classes, -5.0f, 0.0f), weight = uniform(42, s.classes, 0.5f, 2.0f);
  const std::vector<std::int64_t> target = integers(43, s.n, 10);
  const std::size_t count = reduction == Reduction::none ? 1100 : 1;
  const Floats dy = uniform(44, static_cast<std::int64_t>(count));
  Floats loss(count), total(1), dx(x.size());
  const float* const w = weighted ? weight.data() : nullptr;
  const std::int64_t forward = kernels::nll_forward(s, x.data(), target.data(), w, loss.data(), total.data());
  const std::int64_t backward = kernels::nll_backward(s, dy.data(), target.data(), w, total.data(), dx.data());
  return Digest().add(std::vector<std::int64_t>{forward, backward}).add(loss).add(total).add(dx).result();
}

Fingerprint max_pool(const Pool2dShape& s) {
  const Floats x = hostile(51, s.planes * s.h * s.w, true);
  const auto count = static_cast<std::size_t>(s.planes * s.out_h * s.out_w);
  const Floats dy = uniform(52, static_cast<std::int64_t>(count));
  Floats y(count), dx(x.size());
  std::vector<std::int64_t> index(count);
  kernels::max_pool2d(s, x.data(), y.data(), index.data());
  kernels::max_pool2d_backward(s, dy.data(), index.data(), dx.data());
  return Digest().add(y).add(index).add(dx).result();
}

Fingerprint average_pool(const Pool2dShape& s, bool adaptive, bool include_pad, std::int64_t divisor = 0) {
  const Floats x = uniform(53, s.planes * s.h * s.w);
  const auto count = static_cast<std::size_t>(s.planes * s.out_h * s.out_w);
  const Floats dy = uniform(54, static_cast<std::int64_t>(count));
  Floats y(count), dx(x.size());
  if (adaptive) {
    kernels::adaptive_average_pool2d(s, x.data(), y.data());
    kernels::adaptive_average_pool2d_backward(s, dy.data(), dx.data());
  } else {
    kernels::average_pool2d(s, include_pad, divisor, x.data(), y.data());
    kernels::average_pool2d_backward(s, include_pad, divisor, dy.data(), dx.data());
  }
  return Digest().add(y).add(dx).result();
}

}  // namespace

void add_reduce_cases(std::vector<Case>& cases) {
  cases.push_back({"reduce.middle", [] { return reductions(3, 1500, 21, true, false); }});
  cases.push_back({"reduce.rows", [] { return reductions(37, 1100, 1, true, false); }});
  cases.push_back({"reduce.ends", [] { return reductions(9, 7, 131, false, false); }});
  cases.push_back({"reduce.whole", [] { return reductions(1, 60001, 1, true, false); }});
  cases.push_back({"reduce.wild", [] { return reductions(5, 700, 9, true, true); }});
  for (const bool training : {true, false}) {
    const std::string suffix = training ? "training" : "inference";
    cases.push_back({"batch_norm.planes_" + suffix, [=] { return batch_norm({6, 5, 49}, training); }});
    cases.push_back({"batch_norm.large_" + suffix, [=] { return batch_norm({3, 2, 1300}, training); }});
    cases.push_back({"batch_norm.flat_" + suffix, [=] { return batch_norm({67, 33, 1}, training); }});
  }
  cases.push_back({"nll.mean", [] { return nll(Reduction::mean, false); }});
  cases.push_back({"nll.mean_weighted", [] { return nll(Reduction::mean, true); }});
  cases.push_back({"nll.sum_weighted", [] { return nll(Reduction::sum, true); }});
  cases.push_back({"nll.none", [] { return nll(Reduction::none, true); }});
  const Pool2dShape half{
      .planes = 6, .h = 24, .w = 22, .out_h = 12, .out_w = 11, .kh = 2, .kw = 2, .stride_h = 2, .stride_w = 2};
  const Pool2dShape stem{.planes = 5,
                         .h = 13,
                         .w = 15,
                         .out_h = 7,
                         .out_w = 8,
                         .kh = 3,
                         .kw = 3,
                         .stride_h = 2,
                         .stride_w = 2,
                         .pad_h = 1,
                         .pad_w = 1};
  const Pool2dShape odd{.planes = 3,
                        .h = 12,
                        .w = 17,
                        .out_h = 8,
                        .out_w = 6,
                        .kh = 3,
                        .kw = 4,
                        .stride_h = 1,
                        .stride_w = 2,
                        .pad_h = 1,
                        .pad_w = 2,
                        .dilation_h = 3,
                        .dilation_w = 3};
  cases.push_back({"max_pool.half", [=] { return max_pool(half); }});
  cases.push_back({"max_pool.stem", [=] { return max_pool(stem); }});
  cases.push_back({"max_pool.dilated", [=] { return max_pool(odd); }});
  cases.push_back({"average_pool.half", [=] { return average_pool(half, false, true); }});
  cases.push_back({"average_pool.padded", [=] { return average_pool(stem, false, true); }});
  cases.push_back({"average_pool.inside", [=] { return average_pool(stem, false, false); }});
  cases.push_back({"average_pool.fixed_divisor", [=] { return average_pool(stem, false, true, 7); }});
  cases.push_back({"average_pool.adaptive", [=] { return average_pool(stem, true, false); }});
}

}  // namespace isobit::golden
