// Random fills, element by element from the contract's words.
#include "contract/random.h"

#include "contract/random_binary64.h"

#include "kernels/cpu/reference/plain.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_PLAIN {
namespace {

constexpr std::int64_t kSmallest = 4096;  // elements worth a thread

// binary64: a block has the words of two elements.
void fill_uniform(std::uint64_t key, std::int64_t first, double low, double high, double* out, std::int64_t n) {
  const double range = high - low;
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {
      const auto e = static_cast<std::uint64_t>(first + i);
      const contract::PhiloxBlock block = contract::random_block(key, e / 2);
      if (e % 2 == 0) out[i++] = contract::uniform_of_bits(contract::bits53_of(block, 0), low, range);
      if (i < end) out[i++] = contract::uniform_of_bits(contract::bits53_of(block, 1), low, range);
    }
  });
}
void fill_normal(std::uint64_t key, std::int64_t first, double mean, double deviation, double* out, std::int64_t n) {
  parallel_for(0, n, kSmallest / 8, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end;) {  // two from two words, but where a range cuts them
      const auto e = static_cast<std::uint64_t>(first + i);
      const contract::PhiloxBlock block = contract::random_block(key, e / 2);
      const auto pair = contract::normals_of_bits(contract::bits53_of(block, 0), contract::bits53_of(block, 1));
      if (e % 2 == 0) out[i++] = contract::fma(pair.first, deviation, mean);
      if (i < end) out[i++] = contract::fma(pair.second, deviation, mean);
    }
  });
}

#ifndef ISOBIT_LANES  // binary32, whose numbers vector builds make by loops of their own
std::uint32_t word_of(std::uint64_t key, std::int64_t element) {
  return contract::random_word(key, static_cast<std::uint64_t>(element));
}

void fill_uniform(std::uint64_t key, std::int64_t first, float low, float high, float* out, std::int64_t n) {
  const float range = high - low;
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = contract::uniform_of_word(static_cast<std::int32_t>(word_of(key, first + i)), low, range);
    }
  });
}

void fill_normal(std::uint64_t key, std::int64_t first, float mean, float deviation, float* out, std::int64_t n) {
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t even = (first + i) & ~std::int64_t{1};
      const auto w0 = static_cast<std::int32_t>(word_of(key, even));
      const auto w1 = static_cast<std::int32_t>(word_of(key, even + 1));
      const auto pair = contract::normals_of_words<float>(w0, w1);
      out[i] = contract::fma((first + i) & 1 ? pair.second : pair.first, deviation, mean);
    }
  });
}

void fill_bernoulli(std::uint64_t key, std::int64_t first, double p, float* out, std::int64_t n) {
  const std::uint64_t threshold = contract::bernoulli_threshold(p);
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = word_of(key, first + i) < threshold ? 1.0f : 0.0f;
  });
}

void fill_bernoulli_each(std::uint64_t key, std::int64_t first, const float* p, float* out, std::int64_t n) {
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = word_of(key, first + i) < contract::bernoulli_threshold(static_cast<double>(p[i])) ? 1.0f : 0.0f;
    }
  });
}

void dropout(std::uint64_t key, std::int64_t first, double keep, const float* x, float* y, std::int64_t n) {
  const std::uint64_t threshold = contract::bernoulli_threshold(keep);
  const float factor = 1.0f / static_cast<float>(keep);
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      y[i] = word_of(key, first + i) < threshold ? x[i] * factor : 0.0f;
    }
  });
}

#endif

}  // namespace

#ifndef ISOBIT_LANES
void fill_random(KernelTable& t) {
  t.fill_uniform = fill_uniform;
  t.fill_normal = fill_normal;
  t.fill_bernoulli = fill_bernoulli;
  t.fill_bernoulli_each = fill_bernoulli_each;
  t.dropout = dropout;
}
#endif
void fill_random(HostTable& t) {
  t.fill_uniform = fill_uniform;
  t.fill_normal = fill_normal;
}

}  // namespace isobit::kernels::ISOBIT_PLAIN
