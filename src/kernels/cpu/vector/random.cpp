// Random fills: kLanes Philox blocks at a time, the four words of each block in four registers; a chunk is
// the 4 kLanes elements that they give, brought into element order at the end.
#include "contract/random.h"

#include "kernels/dispatch/kernel_table.h"
#include "kernels/cpu/vector/lanes.h"
#include "kernels/threads.h"

namespace isobit::kernels::ISOBIT_ISA {
namespace {

constexpr std::int64_t kChunk = 4 * kLanes;
constexpr std::int64_t kSmallest = 8192;  // elements worth a thread

struct Words {
  IntLanes word[4];
};

ISOBIT_INLINE IntLanes unsigned_order(IntLanes a) { return a ^ IntLanes(INT32_MIN); }

// Blocks `block` to `block` + kLanes - 1 of the key's stream (contract/philox.h: random_block).
ISOBIT_INLINE Words random_words(std::uint64_t key, std::uint64_t block) {
  const IntLanes low(static_cast<std::int32_t>(block));
  IntLanes c0 = low + lane_index();
  const MaskLanes carry = unsigned_order(c0) < unsigned_order(low);
  const IntLanes high(static_cast<std::int32_t>(block >> 32));
  IntLanes c1 = select(carry, high + IntLanes(1), high);
  IntLanes c2(0), c3(0);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    IntLanes high0, low0, high1, low1;
    multiply_wide(c0, 0xD2511F53u, high0, low0);
    multiply_wide(c2, 0xCD9E8D57u, high1, low1);
    c0 = high1 ^ c1 ^ IntLanes(static_cast<std::int32_t>(k0));
    c2 = high0 ^ c3 ^ IntLanes(static_cast<std::int32_t>(k1));
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// v[i]'s lane j is element 4 j + i.
ISOBIT_INLINE void store_in_element_order(float* out, const FloatLanes (&v)[4]) {
  FloatLanes even_low, even_high, odd_low, odd_high, piece[4];
  interleave(v[0], v[2], even_low, even_high);
  interleave(v[1], v[3], odd_low, odd_high);
  interleave(even_low, odd_low, piece[0], piece[1]);
  interleave(even_high, odd_high, piece[2], piece[3]);
  for (int i = 0; i < 4; ++i) store(out + i * kLanes, piece[i]);
}

// chunk(words, x, y) writes the kChunk elements of one chunk to y; a chunk that a range holds only in part
// goes through a buffer. x: a dropout's input, or null.
template <class Chunk>
void for_chunks(std::uint64_t key, std::int64_t first, const float* x, float* y, std::int64_t n, Chunk chunk) {
  parallel_for(0, n, kSmallest, [=](std::int64_t begin, std::int64_t end) {
    std::int64_t element = (first + begin) / 4 * 4;
    for (; element < first + end; element += kChunk) {
      const Words words = random_words(key, static_cast<std::uint64_t>(element) / 4);
      const std::int64_t at = element - first;
      if (at >= begin && at + kChunk <= end) {
        chunk(words, x == nullptr ? nullptr : x + at, y + at);
        continue;
      }
      const std::int64_t from = at < begin ? begin - at : 0;
      const std::int64_t to = at + kChunk > end ? end - at : kChunk;
      float in[kChunk] = {}, out[kChunk];
      if (x != nullptr) {
        for (std::int64_t i = from; i < to; ++i) in[i] = x[at + i];
      }
      chunk(words, in, out);
      for (std::int64_t i = from; i < to; ++i) y[at + i] = out[i];
    }
  });
}

void fill_uniform(std::uint64_t key, std::int64_t first, float low, float high, float* out, std::int64_t n) {
  const float range = high - low;
  for_chunks(key, first, nullptr, out, n, [=](const Words& words, const float*, float* y) {
    FloatLanes v[4];
    for (int i = 0; i < 4; ++i) v[i] = contract::uniform_of_word(words.word[i], FloatLanes(low), FloatLanes(range));
    store_in_element_order(y, v);
  });
}

void fill_normal(std::uint64_t key, std::int64_t first, float mean, float deviation, float* out, std::int64_t n) {
  for_chunks(key, first, nullptr, out, n, [=](const Words& words, const float*, float* y) {
    FloatLanes v[4];
    for (int i = 0; i < 4; i += 2) {
      const auto pair = contract::normals_of_words<FloatLanes>(words.word[i], words.word[i + 1]);
      v[i] = fma(pair.first, FloatLanes(deviation), FloatLanes(mean));
      v[i + 1] = fma(pair.second, FloatLanes(deviation), FloatLanes(mean));
    }
    store_in_element_order(y, v);
  });
}

// 1 where the word is below the threshold, of 2^32 possible ones, else +0; in element order.
ISOBIT_INLINE void keep_mask(const Words& words, std::uint64_t threshold, float* mask) {
  const FloatLanes one(1.0f), zero(0.0f);
  const IntLanes bound = unsigned_order(IntLanes(static_cast<std::int32_t>(threshold)));
  FloatLanes v[4];
  for (int i = 0; i < 4; ++i) {
    v[i] = threshold >> 32 ? one : select(unsigned_order(words.word[i]) < bound, one, zero);
  }
  store_in_element_order(mask, v);
}

void fill_bernoulli(std::uint64_t key, std::int64_t first, double p, float* out, std::int64_t n) {
  const std::uint64_t threshold = contract::bernoulli_threshold(p);
  for_chunks(key, first, nullptr, out, n,
             [=](const Words& words, const float*, float* y) { keep_mask(words, threshold, y); });
}

// contract::bernoulli_threshold without its cases: words and thresholds are compared in binary64, which holds both
// exactly, so that p <= 0 and NaN keep none and p >= 1 keeps all.
void fill_bernoulli_each(std::uint64_t key, std::int64_t first, const float* p, float* out, std::int64_t n) {
  for_chunks(key, first, p, out, n, [](const Words& words, const float* in, float* y) {
    FloatLanes v[4];
    for (int i = 0; i < 4; ++i) v[i] = as_float(words.word[i]);
    alignas(64) float bits[kChunk];
    store_in_element_order(bits, v);
    for (std::int64_t i = 0; i < kChunk; ++i) {
      std::uint32_t word;
      std::memcpy(&word, bits + i, sizeof word);
      const double threshold = __builtin_rint(static_cast<double>(in[i]) * 0x1p32);
      y[i] = static_cast<double>(word) < threshold ? 1.0f : 0.0f;
    }
  });
}

void dropout(std::uint64_t key, std::int64_t first, double keep, const float* x, float* y, std::int64_t n) {
  const std::uint64_t threshold = contract::bernoulli_threshold(keep);
  const float factor = 1.0f / static_cast<float>(keep);
  for_chunks(key, first, x, y, n, [=](const Words& words, const float* in, float* out) {
    alignas(64) float mask[kChunk];
    keep_mask(words, threshold, mask);
    for (int i = 0; i < 4; ++i) {
      const MaskLanes kept = load(mask + i * kLanes) > FloatLanes(0.0f);
      const FloatLanes scaled = load(in + i * kLanes) * FloatLanes(factor);
      store(out + i * kLanes, select(kept, scaled, FloatLanes(0.0f)));
    }
  });
}

}  // namespace

void fill_random(KernelTable& t) {
  t.fill_uniform = fill_uniform;
  t.fill_normal = fill_normal;
  t.fill_bernoulli = fill_bernoulli;
  t.fill_bernoulli_each = fill_bernoulli_each;
  t.dropout = dropout;
}

}  // namespace isobit::kernels::ISOBIT_ISA
