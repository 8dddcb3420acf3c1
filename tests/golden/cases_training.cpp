#include "contract/host_scalars.h"
#include <algorithm>

#include "contract/order_plan.h"
#include "golden/inputs.h"
#include "golden/kernel_cases.h"
#include "kernels/exact_accumulator.h"
#include "kernels/optimizer.h"

namespace isobit::golden {
namespace {

using kernels::Fingerprint;

constexpr std::int64_t kCount = 20011;

Fingerprint sgd(const kernels::SgdOptions& options) {
  Floats parameter = uniform(61, kCount), buffer(kCount);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Floats gradient = hostile(62 + step, kCount, step == 2);
    kernels::sgd_step(options, step == 0, parameter.data(), gradient.data(),
                      options.momentum != 0 ? buffer.data() : nullptr, kCount);
  }
  return Digest().add(parameter).add(buffer).result();
}

Fingerprint adam(const kernels::AdamOptions& options) {
  Floats parameter = uniform(61, kCount), exp_avg(kCount), exp_avg_sq(kCount);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    const Floats gradient = hostile(62 + step, kCount, step == 3);
    kernels::adam_step(options, static_cast<std::int64_t>(step), parameter.data(), gradient.data(), exp_avg.data(),
                       exp_avg_sq.data(), kCount);
  }
  return Digest().add(parameter).add(exp_avg).add(exp_avg_sq).result();
}

Fingerprint exact_sum(int grains, bool any_exponent) {
  kernels::ExactAccumulator accumulator(kCount);
  for (int g = 0; g < grains; ++g) {
    const auto key = static_cast<std::uint64_t>(71 + g);
    const bool finite =
        accumulator.add((any_exponent ? hostile(key, kCount) : uniform(key, kCount, -1e-3f, 1e-3f)).data());
    if (!finite) return {};
  }
  Floats sums(kCount);
  accumulator.result(sums.data());
  return Digest().add(sums).result();
}

// The same grains at once: the same bits.
Fingerprint exact_terms(int grains, bool any_exponent) {
  std::vector<Floats> terms;
  std::vector<const float*> pointers;
  int top = kernels::kNoLimb;
  for (int g = 0; g < grains; ++g) {
    const auto key = static_cast<std::uint64_t>(71 + g);
    terms.push_back(any_exponent ? hostile(key, kCount) : uniform(key, kCount, -1e-3f, 1e-3f));
    top = std::max(top, kernels::top_limb(terms.back().data(), kCount));
  }
  for (const Floats& each : terms) pointers.push_back(each.data());
  Floats sums(kCount);
  kernels::sum_terms(pointers.data(), grains, top, sums.data(), kCount);
  return Digest().add(sums).result();
}

// The same grains as two workers' sums, joined where they are binary64 numbers, in blocks as they travel: the same
// bits.
Fingerprint joined_sums(int grains, bool any_exponent) {
  std::vector<Floats> terms;
  int top = kernels::kNoLimb;
  for (int g = 0; g < grains; ++g) {
    const auto key = static_cast<std::uint64_t>(71 + g);
    terms.push_back(any_exponent ? hostile(key, kCount) : uniform(key, kCount, -1e-3f, 1e-3f));
    top = std::max(top, kernels::top_limb(terms.back().data(), kCount));
  }
  Floats sums(kCount);
  for (std::int64_t first = 0; first < kCount; first += 29) {
    const std::int64_t n = std::min<std::int64_t>(29, kCount - first);
    const auto size = static_cast<std::size_t>(n);
    std::vector<std::int64_t> hi(size), lo(size), other_hi(size), other_lo(size);
    for (int g = 1; g < grains; ++g)
      kernels::add_digits(terms[static_cast<std::size_t>(g)].data() + first, top, (g % 2 != 0 ? hi : other_hi).data(),
                          (g % 2 != 0 ? lo : other_lo).data(), n);
    std::vector<double> sum(size), other(size);
    const bool joined = kernels::join_digits(hi.data(), lo.data(), sum.data(), n);
    if (joined && kernels::join_digits(other_hi.data(), other_lo.data(), other.data(), n) &&
        kernels::add_widened(terms[0].data() + first, top, sum.data(), n) &&
        kernels::add_joined(other.data(), sum.data(), n)) {
      kernels::round_joined(sum.data(), top, sums.data() + first, n);
      continue;
    }
    kernels::add_digits(terms[0].data() + first, top, other_hi.data(), other_lo.data(), n);
    if (joined && kernels::join_digits(hi.data(), lo.data(), sum.data(), n)) {
      if (!kernels::split_joined(sum.data(), other_hi.data(), other_lo.data(), n)) return {};
    } else {
      for (std::size_t i = 0; i < size; ++i) other_hi[i] += hi[i], other_lo[i] += lo[i];
    }
    kernels::round_digits(other_hi.data(), other_lo.data(), top, sums.data() + first, n);
  }
  return Digest().add(sums).result();
}

// What two workers accumulated, the second with larger exponents than the first; then cleared and used again.
Fingerprint merged_sums() {
  kernels::ExactAccumulator one(kCount), other(kCount);
  const auto add = [](kernels::ExactAccumulator& to, const Floats& x) { return to.add(x.data()); };
  if (!add(one, uniform(79, kCount, -0x1p-60f, 0x1p-60f)) || !add(other, hostile(80, kCount))) return {};
  one.add(other);
  Floats sums(kCount), again(kCount);
  one.result(sums.data());
  one.clear();
  const bool refused = !add(one, hostile(80, kCount, true));
  if (!add(one, uniform(81, kCount))) return {};
  one.result(again.data());
  return Digest().add(sums).add(again).add(std::vector<std::int64_t>{refused}).result();
}

// Fingerprints of fingerprints: tensors cut in three, their parts merged, the sums closed as each dtype.
Fingerprint shards() {
  Floats x = hostile(82, kCount, true);
  for (std::size_t i = 3; i < x.size(); i += 97) x[i] = contract::float_of(0xffc12345u);
  std::vector<std::int64_t> wide(x.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    wide[i] = static_cast<std::int64_t>(std::uint64_t{contract::random_word(83, 2 * i)} << 32 |
                                        contract::random_word(83, 2 * i + 1));
  }
  const std::vector<std::int64_t> small = integers(84, kCount, 256);
  const std::vector<std::uint8_t> bytes(small.begin(), small.end());
  const std::int64_t shape[] = {kCount, 1};
  std::vector<std::int64_t> words;
  const auto add = [&](const auto& values, const char* dtype) {
    Fingerprint sums;
    for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 1001}, {1001, 1008}, {1008, kCount}}) {
      sums = kernels::merge(sums, kernels::element_sums(values.data() + begin, begin, end - begin));
    }
    const Fingerprint closed = kernels::close_tensor(sums, dtype, shape, 2);
    words.push_back(static_cast<std::int64_t>(closed.high)), words.push_back(static_cast<std::int64_t>(closed.low));
  };
  add(x, "float32"), add(wide, "int64"), add(bytes, "uint8"), add(bytes, "bool");
  return Digest().add(words).result();
}

Fingerprint order_plan(std::uint64_t seed, std::uint64_t epoch, std::uint64_t n) {
  const contract::OrderPlan plan(contract::OrderRule::shuffled, seed, epoch, n);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(std::min<std::uint64_t>(n, 3000)));
  for (std::size_t p = 0; p < samples.size(); ++p) samples[p] = static_cast<std::int64_t>(plan(p));
  return Digest().add(samples).result();
}

Fingerprint host_scalars() {
  std::vector<std::int64_t> bits;
  const auto add = [&](double value) {
    std::int64_t pattern;
    std::memcpy(&pattern, &value, sizeof pattern);
    bits.push_back(pattern);
  };
  for (std::uint64_t step = 1; step <= 1000; ++step) {
    add(contract::power_rounded(0.9, step));
    add(contract::power_rounded(0.999, step));
    add(contract::cosine_rounded(3.141592653589793 * static_cast<double>(step) / 1000));
  }
  return Digest().add(bits).result();
}

}  // namespace

void add_training_cases(std::vector<Case>& cases) {
  cases.push_back({"sgd.plain", [] { return sgd({.lr = 0.05}); }});
  cases.push_back({"sgd.decay", [] { return sgd({.lr = 0.05, .weight_decay = 5e-4}); }});
  cases.push_back({"sgd.momentum", [] { return sgd({.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4}); }});
  cases.push_back({"sgd.dampening", [] { return sgd({.lr = 0.05, .momentum = 0.9, .dampening = 0.1}); }});
  cases.push_back({"sgd.nesterov", [] { return sgd({.lr = 0.05, .momentum = 0.9, .nesterov = true}); }});
  cases.push_back({"adam.plain", [] { return adam({}); }});
  cases.push_back({"adam.decay", [] { return adam({.weight_decay = 0.01}); }});
  cases.push_back({"adam.decoupled", [] { return adam({.weight_decay = 0.01, .decoupled = true}); }});
  cases.push_back({"adam.low_beta", [] { return adam({.beta1 = 0.4, .beta2 = 0.95}); }});
  cases.push_back({"exact_sum.one", [] { return exact_sum(1, true); }});
  cases.push_back({"exact_sum.gradients", [] { return exact_sum(9, false); }});
  cases.push_back({"exact_terms.gradients", [] { return exact_terms(9, false); }, true});
  cases.push_back({"exact_sum.any_exponent", [] { return exact_sum(7, true); }});
  cases.push_back({"exact_terms.any_exponent", [] { return exact_terms(7, true); }, true});
  cases.push_back({"exact_sum.merged", merged_sums});
  cases.push_back({"joined_sums.gradients", [] { return joined_sums(9, false); }, true});
  cases.push_back({"joined_sums.any_exponent", [] { return joined_sums(7, true); }, true});
  cases.push_back({"fingerprint.shards", shards});
  cases.push_back({"order_plan.small", [] { return order_plan(1, 2, 10); }});
  cases.push_back({"order_plan.fashion", [] { return order_plan(42, 3, 60000); }});
  cases.push_back({"order_plan.large", [] { return order_plan(7, 1ull << 40, (1ull << 40) + 1); }});
  cases.push_back({"host_scalars", [] { return host_scalars(); }});
}

}  // namespace isobit::golden
