// Random fills (contract, section 5): each takes one 64-bit number from its generator as Philox key.
#include "kernels/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/searchsorted.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "aten/certified/support/entry.h"
#include "aten/certified/support/random_key.h"
#include "aten/certified/support/tensors.h"
#include "aten/generator_scope.h"
#include "aten/refusal.h"

namespace isobit::aten {

std::uint64_t take_key(const char* op, const std::optional<at::Generator>& generator) {
  if (generator && generator->defined() && generator->device().type() != at::kCPU) {
    refuse(op, "needs a CPU generator on every device, got one on " + generator->device().str(),
           "pass a CPU generator, or none");
  }
  const at::Generator drawn_from = generator && generator->defined() ? *generator : default_generator();
  auto* source = at::check_generator<at::CPUGeneratorImpl>(drawn_from);
  const std::lock_guard lock(source->mutex_);
  return source->random64();
}

namespace {

using at::Generator;
using at::Tensor;

// fill(T*, count) in row-major order of the logical elements, whatever the strides; T is self's type.
template <class Fill>
Tensor& fill_in_order_of_type(const Tensor& constant_self, Fill&& fill) {
  Tensor& self = const_cast<Tensor&>(constant_self);
  at::assert_no_internal_overlap(self);
  const Tensor values = self.is_contiguous() ? self : new_tensor(self.sizes(), self.scalar_type());
  with_data(values, [&](auto* out) { fill(out, values.numel()); });
  if (!self.is_contiguous()) self.copy_(values);
  return self;
}
// The same by fill(float*, count), for self of any type that holds its numbers.
template <class Fill>
Tensor& fill_in_order(const Tensor& constant_self, Fill&& fill) {
  Tensor& self = const_cast<Tensor&>(constant_self);
  at::assert_no_internal_overlap(self);
  if (is_float(self) && self.is_contiguous()) {
    fill(self.mutable_data_ptr<float>(), self.numel());
  } else {
    const Tensor values = new_tensor(self.sizes());
    fill(values.mutable_data_ptr<float>(), values.numel());
    self.copy_(values);
  }
  return self;
}

Tensor& uniform_(Tensor& self, double low, double high, std::optional<Generator> generator) {
  require_computed("aten::uniform_", self.scalar_type());
  TORCH_CHECK(low <= high, "aten::uniform_: from (", low, ") must not be above to (", high, ")");
  const std::uint64_t key = take_key("aten::uniform_", generator);
  return fill_in_order_of_type(
      self, [&](auto* out, std::int64_t n) { kernels::fill_uniform(key, 0, like(out, low), like(out, high), out, n); });
}

Tensor& normal_(Tensor& self, double mean, double deviation, std::optional<Generator> generator) {
  require_computed("aten::normal_", self.scalar_type());
  TORCH_CHECK(deviation >= 0, "aten::normal_: std must not be negative, got ", deviation);
  const std::uint64_t key = take_key("aten::normal_", generator);
  return fill_in_order_of_type(self, [&](auto* out, std::int64_t n) {
    kernels::fill_normal(key, 0, like(out, mean), like(out, deviation), out, n);
  });
}

// Zeros and ones are exact in every type.
Tensor& bernoulli_(Tensor& self, double p, std::optional<Generator> generator) {
  TORCH_CHECK(p >= 0 && p <= 1, "aten::bernoulli_: p must be in [0, 1], got ", p);
  const std::uint64_t key = take_key("aten::bernoulli_", generator);
  return fill_in_order(self, [&](float* out, std::int64_t n) { kernels::fill_bernoulli(key, 0, p, out, n); });
}

// The composition that F.dropout computes: mask = bernoulli(1 - p); (mask / (1 - p)) * x.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& x, double p, std::optional<bool> train) {
  const at::ScalarType type = require_computed("aten::native_dropout", x.scalar_type());
  TORCH_CHECK(p >= 0 && p <= 1, "aten::native_dropout: p must be in [0, 1], got ", p);
  if (train && !*train) {
    Tensor ones = new_tensor(x.sizes(), at::kBool);
    return {x.clone(), ones.fill_(true)};
  }
  Tensor keep = new_tensor(x.sizes(), type);
  bernoulli_(keep, 1 - p, std::nullopt);
  const double scale = p == 1 ? 0.0 : 1.0 / (type == at::kDouble ? 1 - p : static_cast<float>(1 - p));
  return {x.mul(keep).mul_(scale), keep.to(at::kBool)};
}
Tensor native_dropout_backward(const Tensor& dy, const Tensor& mask, double scale) {
  require_computed("aten::native_dropout_backward", dy.scalar_type());
  return dy.mul(mask).mul_(scale);
}

// ---- other distributions, made of uniform and normal numbers

// 1 - u in (0, 1].
Tensor open_uniform(const char* op, at::IntArrayRef sizes, const std::optional<Generator>& generator,
                    at::ScalarType type) {
  const std::uint64_t key = take_key(op, generator);
  return write_new(sizes, type,
                   [&](auto* out) {
                     kernels::fill_uniform(key, 0, like(out, 0.0), like(out, 1.0), out, c10::multiply_integers(sizes));
                   })
      .neg_()
      .add_(1.0);
}
// -log(1 - u), half of u's unit where that is 0.
Tensor exponentials(const char* op, at::IntArrayRef sizes, const std::optional<Generator>& generator,
                    at::ScalarType type = at::kFloat) {
  return open_uniform(op, sizes, generator, type).log_().neg_().clamp_min_(type == at::kDouble ? 0x1p-54 : 0x1p-25);
}
Tensor& exponential_(Tensor& self, double rate, std::optional<Generator> generator) {
  const at::ScalarType type = require_computed("aten::exponential_", self.scalar_type());
  TORCH_CHECK(rate > 0, "aten::exponential_: lambda must be positive, got ", rate);
  return self.copy_(exponentials("aten::exponential_", self.sizes(), generator, type).div_(rate));
}
Tensor& geometric_(Tensor& self, double p, std::optional<Generator> generator) {
  const at::ScalarType type = require_computed("aten::geometric_", self.scalar_type());
  TORCH_CHECK(p > 0 && p < 1, "aten::geometric_: p must be between 0 and 1, got ", p);
  const Tensor none = new_tensor({}, type).fill_(-p).log1p_();
  return self.copy_(
      open_uniform("aten::geometric_", self.sizes(), generator, type).log_().div_(none).ceil_().clamp_min_(1.0));
}
Tensor& log_normal_(Tensor& self, double mean, double deviation, std::optional<Generator> generator) {
  return normal_(self, mean, deviation, std::move(generator)).exp_();
}
Tensor& cauchy_(Tensor& self, double median, double sigma, std::optional<Generator> generator) {
  require_float("aten::cauchy_", self);
  uniform_(self, 0.0, 1.0, std::move(generator));
  return self.sub_(0.5).mul_(3.141592653589793).tan_().mul_(sigma).add_(median);
}

// 1 where w < RN(p * 2^32), element by element: the uniform number's 24 bits do not do.
Tensor drawn(const char* op, const Tensor& given, const std::optional<Generator>& generator) {
  const Tensor p = contiguous(given.to(at::kFloat));
  const std::uint64_t key = take_key(op, generator);
  TORCH_CHECK(p.ge(0).logical_and_(p.le(1)).all().item<bool>(), op, ": p must be in [0, 1]");
  return write_new(
      p.sizes(), [&](float* out) { kernels::fill_bernoulli_each(key, 0, p.const_data_ptr<float>(), out, p.numel()); });
}
Tensor& bernoulli_tensor_(Tensor& self, const Tensor& p, std::optional<Generator> generator) {
  return self.copy_(drawn("aten::bernoulli_", p.expand(self.sizes()), generator));
}
Tensor& bernoulli_out(const Tensor& p, std::optional<Generator> generator, Tensor& out) {
  copy_out(out, drawn("aten::bernoulli", p, generator).to(out.scalar_type()));
  return out;
}

// RN(RN(z * deviation) + mean).
Tensor normals(at::IntArrayRef sizes, const Tensor& mean, const Tensor& deviation, std::optional<Generator> generator) {
  Tensor z = new_tensor(sizes, require_computed("aten::normal", {&mean, &deviation}));
  return normal_(z, 0.0, 1.0, std::move(generator)).mul(deviation).add(mean);
}
Tensor normal_means(const Tensor& mean, double deviation, std::optional<Generator> generator) {
  return normals(mean.sizes(), mean, new_tensor({}, mean.scalar_type()).fill_(deviation), std::move(generator));
}
Tensor normal_deviations(double mean, const Tensor& deviation, std::optional<Generator> generator) {
  return normals(deviation.sizes(), new_tensor({}, deviation.scalar_type()).fill_(mean), deviation,
                 std::move(generator));
}
Tensor normal_both(const Tensor& mean, const Tensor& deviation, std::optional<Generator> generator) {
  return normals(at::infer_size_dimvector(mean.sizes(), deviation.sizes()), mean, deviation, std::move(generator));
}

constexpr std::int64_t kFewWeights = 4096;  // looked at one by one in less time than operators take to be called

bool are_few(const Tensor& weights) { return weights.device().is_cpu() && weights.numel() <= kFewWeights; }

// Every weight finite and not negative, and as many above 0 in each row as are drawn.
void check_weights(const char* op, const Tensor& weights, std::int64_t needed) {
  bool finite = true, enough = true;
  if (are_few(weights)) {
    const float* w = weights.const_data_ptr<float>();
    for (std::int64_t row = 0; row < weights.size(0); ++row) {
      std::int64_t above = 0;
      for (std::int64_t i = 0; i < weights.size(1); ++i, ++w) {
        finite = finite && *w >= 0 && *w < std::numeric_limits<float>::infinity();  // false for NaN
        above += *w > 0 ? 1 : 0;
      }
      enough = enough && above >= needed;
    }
  } else {
    finite = weights.ge(0).logical_and_(weights.lt(std::numeric_limits<float>::infinity())).all().item<bool>();
    enough = finite && weights.gt(0).sum(-1).ge(needed).all().item<bool>();
  }
  TORCH_CHECK(finite, op, ": weights must be finite and not negative");
  TORCH_CHECK(enough, op, ": a row has too few weights above 0");
}

// Of each u in [0, 1), the first place of its row whose running sum is above u times the last, or the first that has
// the last sum. u: [rows, count]; running sums that overflowed may make a threshold NaN, above which is nothing.
Tensor places_of(const Tensor& sums, const Tensor& u) {
  const std::int64_t n = sums.size(1);
  if (!are_few(sums) || u.numel() > kFewWeights) {
    const Tensor last_sums = sums.select(-1, n - 1).unsqueeze(-1);
    const Tensor place = at::searchsorted(sums, u.mul(last_sums), false, true);
    return place.minimum(at::searchsorted(sums, last_sums.contiguous(), false, false));
  }
  Tensor places = new_tensor(u.sizes(), at::kLong);
  auto* to = places.mutable_data_ptr<std::int64_t>();
  const float *row = sums.const_data_ptr<float>(), *from = u.const_data_ptr<float>();
  for (std::int64_t r = 0; r < sums.size(0); ++r, row += n) {
    const float total = row[n - 1];
    const std::int64_t last = std::lower_bound(row, row + n, total) - row;
    for (std::int64_t k = 0; k < u.size(1); ++k) {
      const float threshold = *from++ * total;
      const std::int64_t place =
          std::partition_point(row, row + n, [=](float sum) { return !(sum > threshold); }) - row;
      *to++ = std::min(place, last);
    }
  }
  return places;
}

// With replacement, or one: by running sums. Without: the largest quotients of the weights by exponentials (Efraimidis
// and Spirakis), in their order. binary64 weights (those of WeightedRandomSampler) are rounded to binary32 first.
Tensor draw_places(const Tensor& wide, std::int64_t count, bool replacement, std::optional<Generator> generator) {
  constexpr const char* op = "aten::multinomial";
  const Tensor given = wide.scalar_type() == at::kDouble ? wide.to(at::kFloat) : wide;
  require_float(op, given);
  TORCH_CHECK(given.dim() == 1 || given.dim() == 2, op, ": weights of one or two dimensions expected, got ",
              given.sizes());
  const std::int64_t n = given.size(-1);
  TORCH_CHECK(count > 0 && (replacement || count <= n), op, ": cannot draw ", count, " of ", n, " values");
  const Tensor weights = contiguous(given.dim() == 1 ? given.unsqueeze(0) : given);
  check_weights(op, weights, replacement ? 1 : count);
  Tensor result;
  if (!replacement && count > 1) {
    result = std::get<1>(weights.div(exponentials(op, weights.sizes(), generator)).topk(count, -1, true, true));
  } else {
    const Tensor u = new_tensor({weights.size(0), count});
    const std::uint64_t key = take_key(op, generator);
    kernels::fill_uniform(key, 0, 0.0f, 1.0f, u.mutable_data_ptr<float>(), u.numel());
    result = places_of(weights.cumsum(-1), u);
  }
  return given.dim() == 1 ? result.squeeze(0) : result;
}
Tensor& multinomial_out(const Tensor& weights, std::int64_t count, bool replacement, std::optional<Generator> generator,
                        Tensor& out) {
  copy_out(out, draw_places(weights, count, replacement, std::move(generator)));
  return out;
}

// ---- integers

struct Bounds {
  std::int64_t lowest, highest;  // both included
};

// The integers that a type holds, floats as far as they hold all of them.
Bounds bounds_of(const char* op, const Tensor& self) {
  switch (self.scalar_type()) {
    case at::kBool: return {0, 1};
    case at::kByte: return {0, 255};
    case at::kChar: return {-128, 127};
    case at::kShort: return {-(1 << 15), (1 << 15) - 1};
    case at::kInt: return {std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()};
    case at::kLong: return {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
    case at::kFloat: return {-(1 << 24), 1 << 24};
    default: refuse_type(op, self.scalar_type());
  }
}

// fill(int64*, count) in row-major order of the logical elements, computed on the host for every device.
template <class Fill>
Tensor& fill_integers_in_order(const Tensor& constant_self, Fill&& fill) {
  Tensor& self = const_cast<Tensor&>(constant_self);
  at::assert_no_internal_overlap(self);
  if (self.scalar_type() == at::kLong && self.is_contiguous() && self.device().is_cpu()) {
    fill(self.mutable_data_ptr<std::int64_t>(), self.numel());
  } else {
    const Tensor values = at::empty(self.sizes(), at::TensorOptions(at::kLong).device(at::kCPU));
    fill(values.mutable_data_ptr<std::int64_t>(), values.numel());
    self.copy_(values);
  }
  return self;
}

// highest is included.
Tensor& draw_integers(const char* op, Tensor& self, std::int64_t low, std::int64_t highest,
                      const std::optional<Generator>& generator) {
  const Bounds bounds = bounds_of(op, self);
  TORCH_CHECK(low <= highest, op, ": from (", low, ") must be below to");
  TORCH_CHECK(bounds.lowest <= low && highest <= bounds.highest, op, ": ", low, " .. ", highest, " does not fit in ",
              self.scalar_type());
  const std::uint64_t key = take_key(op, generator);
  const std::uint64_t range = static_cast<std::uint64_t>(highest) - static_cast<std::uint64_t>(low) + 1;
  return fill_integers_in_order(
      self, [&](std::int64_t* out, std::int64_t n) { kernels::fill_integers(key, 0, low, range, out, n); });
}

Tensor& random_from_(Tensor& self, std::int64_t from, std::optional<std::int64_t> to,
                     std::optional<Generator> generator) {
  TORCH_CHECK(!to || from < *to, "aten::random_: from (", from, ") must be below to (", to.value_or(0), ")");
  const std::int64_t highest = to ? *to - 1 : bounds_of("aten::random_", self).highest;
  return draw_integers("aten::random_", self, from, highest, generator);
}
Tensor& random_to_(Tensor& self, std::int64_t to, std::optional<Generator> generator) {
  return random_from_(self, 0, to, std::move(generator));
}
Tensor& random_(Tensor& self, std::optional<Generator> generator) {
  return random_from_(self, 0, std::nullopt, std::move(generator));
}

// As the samplers of torch.utils.data draw an epoch's order.
Tensor& randperm_out(std::int64_t n, std::optional<Generator> generator, Tensor& out) {
  TORCH_CHECK(n >= 0, "aten::randperm: n must not be negative, got ", n);
  const Bounds bounds = bounds_of("aten::randperm", out);
  TORCH_CHECK(n == 0 || n - 1 <= bounds.highest, "aten::randperm: ", n, " numbers do not fit in ", out.scalar_type());
  const std::uint64_t key = take_key("aten::randperm", generator);
  out.resize_({n});
  return fill_integers_in_order(
      out, [&](std::int64_t* numbers, std::int64_t count) { kernels::fill_permutation(key, 0, n, numbers, count); });
}

}  // namespace

std::vector<Entry> random_operators() {
  constexpr DeviceRules kDoubleWeights{.doubles = true};
  return {
      certify<uniform_>("aten::uniform_", "", "5: fma(u, high - low, low), u = (w >> 8) * 2^-24"),
      certify<normal_>("aten::normal_", "", "5: fma(z, deviation, mean), z by Box-Muller pairs"),
      certify<bernoulli_>("aten::bernoulli_", "float", "5: 1 where w < RN(p * 2^32)"),
      certify<bernoulli_tensor_>("aten::bernoulli_", "Tensor", "5: 1 where w < RN(p * 2^32)"),
      certify<bernoulli_out>("aten::bernoulli", "out", "5: 1 where w < RN(p * 2^32)"),
      certify<normal_means>("aten::normal", "Tensor_float", "5: RN(z * deviation) + mean"),
      certify<normal_deviations>("aten::normal", "float_Tensor", "5: RN(z * deviation) + mean"),
      certify<normal_both>("aten::normal", "Tensor_Tensor", "5: RN(z * deviation) + mean"),
      certify<exponential_>("aten::exponential_", "", "5: -log(1 - u) / lambda"),
      certify<geometric_>("aten::geometric_", "", "5: ceil(log(1 - u) / log1p(-p))"),
      certify<log_normal_>("aten::log_normal_", "", "5: exp of a normal number"),
      certify<cauchy_>("aten::cauchy_", "", "5: tan(pi (u - 0.5)) * sigma + median"),
      certify<draw_places, kDoubleWeights>("aten::multinomial", "",
                                           "5: by running sums, or the largest weight / exponential"),
      certify<multinomial_out, kDoubleWeights>("aten::multinomial", "out",
                                               "5: by running sums, or the largest weight / exponential"),
      certify<random_>("aten::random_", "", "5: floor(w * 2^-64 * range), from 0 to the type's highest"),
      certify<random_to_>("aten::random_", "to", "5: floor(w * 2^-64 * range)"),
      certify<random_from_>("aten::random_", "from", "5: low + floor(w * 2^-64 * range)"),
      certify<randperm_out>("aten::randperm", "generator_out", "5: section 6's order, the key as its seed"),
      certify<native_dropout>("aten::native_dropout", "", "5: bernoulli mask, x * mask * (1 / keep)"),
      certify<native_dropout_backward>("aten::native_dropout_backward", "", "5: dy * mask * scale"),
  };
}

}  // namespace isobit::aten
