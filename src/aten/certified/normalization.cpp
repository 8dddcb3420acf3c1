// Batch normalisation (contract, section 4; formulas in kernels/batch_norm.h). nn.BatchNorm reaches
// native_batch_norm; the functional forms reach the same code.
#include <array>
#include <optional>
#include <tuple>

#include "aten/batch_statistics.h"
#include "aten/certified/support/entry.h"
#include "aten/certified/support/tensors.h"
#include "kernels/batch_norm.h"

namespace isobit::aten {
namespace {

using at::Tensor;
using kernels::ChannelShape;
using Optional = std::optional<Tensor>;

constexpr const char* kForward = "aten::native_batch_norm";
constexpr const char* kBackward = "aten::native_batch_norm_backward";

ChannelShape shape_of(const char* op, const Tensor& x) {
  require_computed(op, x.scalar_type());
  TORCH_CHECK(x.dim() >= 2, op, ": [n, c, ...] expected, got ", x.sizes());
  ChannelShape shape;
  shape.n = x.size(0), shape.c = x.size(1), shape.inner = 1;
  for (std::int64_t d = 2; d < x.dim(); ++d) shape.inner *= x.size(d);
  return shape;
}

bool given(const Optional& tensor) { return tensor && tensor->defined(); }

// One value per channel, contiguous, of x's type; undefined where absent.
Tensor channel_values(const char* op, const Tensor& x, const Optional& tensor, const ChannelShape& shape) {
  if (!given(tensor)) return {};
  require_computed(op, {&x, &*tensor});
  TORCH_CHECK(tensor->numel() == shape.c, op, ": ", shape.c, " values expected, got sizes ", tensor->sizes());
  return contiguous(*tensor);
}
template <class T>
const T* read(const Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}
template <class T>
T* write(const Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

struct Results {
  Tensor y, saved_mean, saved_invstd;
};

Results forward(const char* op, const Tensor& input, const Optional& weight, const Optional& bias,
                const Optional& running_mean, const Optional& running_variance, bool training, double momentum,
                double eps) {
  const ChannelShape shape = shape_of(op, input);
  TORCH_CHECK(training || (given(running_mean) && given(running_variance)), op,
              ": running statistics are needed outside training");
  const Tensor x = contiguous(input), w = channel_values(op, x, weight, shape), b = channel_values(op, x, bias, shape);
  // Contiguous copies where the buffers are not; copied back below.
  Tensor mean = channel_values(op, x, running_mean, shape);
  Tensor variance = channel_values(op, x, running_variance, shape);
  const bool collected = training && (mean.defined() || variance.defined()) && BatchStatisticsScope::active();
  if (collected) {  // what momentum 1 gives from running values of +0
    if (mean.defined()) mean = new_tensor({shape.c}, x.scalar_type()).zero_();
    if (variance.defined()) variance = new_tensor({shape.c}, x.scalar_type()).zero_();
  }
  const at::DimVector saved_sizes = training ? at::DimVector{shape.c} : at::DimVector{0};
  const at::ScalarType type = x.scalar_type();
  const Results results{new_tensor(x.sizes(), type), new_tensor(saved_sizes, type), new_tensor(saved_sizes, type)};
  const auto run = [&]<class T>(T) {
    kernels::BatchNormForwardOf<T> problem;
    problem.shape = shape;
    problem.x = read<T>(x), problem.weight = read<T>(w), problem.bias = read<T>(b);
    problem.running_mean = write<T>(mean), problem.running_variance = write<T>(variance);
    problem.y = write<T>(results.y);
    problem.saved_mean = training ? write<T>(results.saved_mean) : nullptr;
    problem.saved_invstd = training ? write<T>(results.saved_invstd) : nullptr;
    problem.momentum = collected ? 1.0 : momentum, problem.eps = eps;
    training ? kernels::batch_norm_training(problem) : kernels::batch_norm_inference(problem);
  };
  is_wide(x) ? run(double{}) : run(float{});
  if (collected) {
    if (shape.per_channel() == 0) return results;
    BatchStatisticsScope::add(
        {running_mean.value_or(Tensor()), running_variance.value_or(Tensor()), momentum, mean, variance});
    return results;
  }
  if (training && mean.defined() && !mean.is_same(*running_mean)) running_mean->copy_(mean);
  if (training && variance.defined() && !variance.is_same(*running_variance)) running_variance->copy_(variance);
  return results;
}

std::tuple<Tensor&, Tensor&, Tensor&> give(const Results& results, Tensor& y, Tensor& mean, Tensor& invstd) {
  float_out(kForward, results.y, y);
  float_out(kForward, results.saved_mean, mean);
  float_out(kForward, results.saved_invstd, invstd);
  return {y, mean, invstd};
}

using Three = std::tuple<Tensor, Tensor, Tensor>;
Three as_tuple(Results results) { return {results.y, results.saved_mean, results.saved_invstd}; }

Three native(const Tensor& x, const Optional& weight, const Optional& bias, const Optional& running_mean,
             const Optional& running_variance, bool training, double momentum, double eps) {
  return as_tuple(forward(kForward, x, weight, bias, running_mean, running_variance, training, momentum, eps));
}
std::tuple<Tensor&, Tensor&, Tensor&> native_out(const Tensor& x, const Optional& weight, const Optional& bias,
                                                 const Optional& running_mean, const Optional& running_variance,
                                                 bool training, double momentum, double eps, Tensor& y, Tensor& mean,
                                                 Tensor& invstd) {
  return give(forward(kForward, x, weight, bias, running_mean, running_variance, training, momentum, eps), y, mean,
              invstd);
}

Three legit(const Tensor& x, const Optional& weight, const Optional& bias, Tensor& running_mean,
            Tensor& running_variance, bool training, double momentum, double eps) {
  return as_tuple(forward("aten::_native_batch_norm_legit", x, weight, bias, running_mean, running_variance, training,
                          momentum, eps));
}
std::tuple<Tensor&, Tensor&, Tensor&> legit_out(const Tensor& x, const Optional& weight, const Optional& bias,
                                                Tensor& running_mean, Tensor& running_variance, bool training,
                                                double momentum, double eps, Tensor& y, Tensor& mean, Tensor& invstd) {
  return give(forward("aten::_native_batch_norm_legit", x, weight, bias, running_mean, running_variance, training,
                      momentum, eps),
              y, mean, invstd);
}
Three no_stats(const Tensor& x, const Optional& weight, const Optional& bias, bool training, double momentum,
               double eps) {
  return as_tuple(forward("aten::_native_batch_norm_legit", x, weight, bias, {}, {}, training, momentum, eps));
}
std::tuple<Tensor&, Tensor&, Tensor&> no_stats_out(const Tensor& x, const Optional& weight, const Optional& bias,
                                                   bool training, double momentum, double eps, Tensor& y, Tensor& mean,
                                                   Tensor& invstd) {
  return give(forward("aten::_native_batch_norm_legit", x, weight, bias, {}, {}, training, momentum, eps), y, mean,
              invstd);
}
Three no_training(const Tensor& x, const Optional& weight, const Optional& bias, const Tensor& running_mean,
                  const Tensor& running_variance, double momentum, double eps) {
  return as_tuple(forward("aten::_native_batch_norm_legit_no_training", x, weight, bias, running_mean, running_variance,
                          false, momentum, eps));
}

// With a reserve that only other backends use.
std::tuple<Tensor, Tensor, Tensor, Tensor> with_update(const Tensor& x, const Optional& weight, const Optional& bias,
                                                       Tensor& running_mean, Tensor& running_variance, double momentum,
                                                       double eps) {
  Results results =
      forward("aten::_batch_norm_with_update", x, weight, bias, running_mean, running_variance, true, momentum, eps);
  return {results.y, results.saved_mean, results.saved_invstd, new_tensor({0}, at::kByte)};
}

Three backward(const Tensor& grad_output, const Tensor& input, const Optional& weight, const Optional& running_mean,
               const Optional& running_variance, const Optional& saved_mean, const Optional& saved_invstd,
               bool training, double eps, std::array<bool, 3> mask) {
  const ChannelShape shape = shape_of(kBackward, input);
  const at::ScalarType type = require_computed(kBackward, {&input, &grad_output});
  TORCH_CHECK(grad_output.sizes() == input.sizes(), kBackward, ": grad_output has sizes ", grad_output.sizes(),
              ", input ", input.sizes());
  const Tensor x = contiguous(input), dy = contiguous(grad_output);
  const Tensor w = channel_values(kBackward, x, weight, shape);
  const Tensor mean = channel_values(kBackward, x, training ? saved_mean : running_mean, shape);
  Tensor invstd = channel_values(kBackward, x, training ? saved_invstd : running_variance, shape);
  TORCH_CHECK(mean.defined() && invstd.defined(), kBackward, ": statistics are missing");
  if (!training) {
    const Tensor variance = invstd;
    invstd = new_tensor({shape.c}, type);
    with_data(invstd, [&](auto* y) { kernels::invstd_of(data_like(y, variance), eps, y, shape.c); });
  }
  Tensor dx, dweight, dbias;
  if (mask[0]) dx = new_tensor(x.sizes(), type);
  if (mask[1]) dweight = new_tensor({shape.c}, type);
  if (mask[2]) dbias = new_tensor({shape.c}, type);
  const auto run = [&]<class T>(T) {
    kernels::BatchNormBackwardOf<T> problem;
    problem.shape = shape, problem.training = training;
    problem.x = read<T>(x), problem.dy = read<T>(dy), problem.weight = read<T>(w);
    problem.mean = read<T>(mean), problem.invstd = read<T>(invstd);
    problem.dx = write<T>(dx), problem.dweight = write<T>(dweight), problem.dbias = write<T>(dbias);
    kernels::batch_norm_backward(problem);
  };
  is_wide(x) ? run(double{}) : run(float{});
  return {dx, dweight, dbias};
}
Three backward_with_reserve(const Tensor& dy, const Tensor& x, const Tensor& weight, const Optional& running_mean,
                            const Optional& running_variance, const Optional& saved_mean, const Optional& saved_invstd,
                            bool training, double eps, std::array<bool, 3> mask, const Tensor& /*reserve*/) {
  return backward(dy, x, weight, running_mean, running_variance, saved_mean, saved_invstd, training, eps, mask);
}

}  // namespace

std::vector<Entry> normalization_operators() {
  constexpr std::string_view moments = "4: leaf moments; y = fma(x - mean, weight * invstd, bias)";
  constexpr std::string_view gradient = "4: sums of dy and dy * (x - mean); kernels/batch_norm.h";
  return {
      certify<native>("aten::native_batch_norm", "", moments),
      certify<native_out>("aten::native_batch_norm", "out", moments),
      certify<legit>("aten::_native_batch_norm_legit", "", moments),
      certify<legit_out>("aten::_native_batch_norm_legit", "out", moments),
      certify<no_stats>("aten::_native_batch_norm_legit", "no_stats", moments),
      certify<no_stats_out>("aten::_native_batch_norm_legit", "no_stats_out", moments),
      certify<no_training>("aten::_native_batch_norm_legit_no_training", "", moments),
      certify<with_update>("aten::_batch_norm_with_update", "", moments),
      certify<backward>("aten::native_batch_norm_backward", "", gradient),
      certify<backward_with_reserve>("aten::batch_norm_backward", "", gradient),
  };
}

}  // namespace isobit::aten
