// Philox fills: one thread per block of four words, which are its four elements.
#include "contract/random.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256;

// Each formula: four values of one Philox block from its words and, for dropout, the four inputs.
struct Uniform {
  static constexpr bool kReads = false;
  float low, range;
  ISOBIT_HOST_DEVICE Float4 operator()(const contract::PhiloxBlock& b, Float4) const {
    return {value(b.word[0]), value(b.word[1]), value(b.word[2]), value(b.word[3])};
  }
  ISOBIT_HOST_DEVICE float value(std::uint32_t word) const {
    return contract::uniform_of_word(static_cast<std::int32_t>(word), low, range);
  }
};

struct Normal {
  static constexpr bool kReads = false;
  float mean, deviation;
  ISOBIT_HOST_DEVICE Float4 operator()(const contract::PhiloxBlock& b, Float4) const {
    const auto first =
        contract::normals_of_words<float>(static_cast<std::int32_t>(b.word[0]), static_cast<std::int32_t>(b.word[1]));
    const auto second =
        contract::normals_of_words<float>(static_cast<std::int32_t>(b.word[2]), static_cast<std::int32_t>(b.word[3]));
    return {value(first.first), value(first.second), value(second.first), value(second.second)};
  }
  ISOBIT_HOST_DEVICE float value(float z) const { return contract::fma(z, deviation, mean); }
};

struct Bernoulli {
  static constexpr bool kReads = false;
  std::uint64_t threshold;
  ISOBIT_HOST_DEVICE Float4 operator()(const contract::PhiloxBlock& b, Float4) const {
    return {value(b.word[0]), value(b.word[1]), value(b.word[2]), value(b.word[3])};
  }
  ISOBIT_HOST_DEVICE float value(std::uint32_t word) const { return word < threshold ? 1.0f : 0.0f; }
};

struct BernoulliEach {
  static constexpr bool kReads = true;
  ISOBIT_HOST_DEVICE Float4 operator()(const contract::PhiloxBlock& b, Float4 p) const {
    return {value(b.word[0], p.x), value(b.word[1], p.y), value(b.word[2], p.z), value(b.word[3], p.w)};
  }
  ISOBIT_HOST_DEVICE float value(std::uint32_t word, float p) const {
    return word < contract::bernoulli_threshold(static_cast<double>(p)) ? 1.0f : 0.0f;
  }
};

struct Dropout {
  static constexpr bool kReads = true;
  std::uint64_t threshold;
  float factor;
  ISOBIT_HOST_DEVICE Float4 operator()(const contract::PhiloxBlock& b, Float4 x) const {
    return {value(b.word[0], x.x), value(b.word[1], x.y), value(b.word[2], x.z), value(b.word[3], x.w)};
  }
  ISOBIT_HOST_DEVICE float value(std::uint32_t word, float x) const { return word < threshold ? x * factor : 0.0f; }
};

// Place i of the arrays is element first + i; x and y may be the same. `wide`: a whole block's four places may
// be read and written at once.
template <class Formula>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 2) void fill_kernel(Formula formula, std::uint64_t key, std::int64_t first,
                                                                 bool wide, const float* x, float* y, std::int64_t n) {
  const std::int64_t block = first / 4 + block_index() * kThreads + thread_index();
  const std::int64_t place = block * 4 - first;  // -3 and up
  if (place >= n) return;
  const auto words = contract::random_block(key, static_cast<std::uint64_t>(block));
  if (wide && place >= 0 && place + 4 <= n) {
    Float4 values{};
    if constexpr (Formula::kReads) values = load4(x + place);
    store4(y + place, formula(words, values));
    return;
  }
  const auto inside = [&](int j) { return place + j >= 0 && place + j < n; };
  Float4 values{};
  if constexpr (Formula::kReads) {
    if (inside(0)) values.x = x[place];
    if (inside(1)) values.y = x[place + 1];
    if (inside(2)) values.z = x[place + 2];
    if (inside(3)) values.w = x[place + 3];
  }
  values = formula(words, values);
  if (inside(0)) y[place] = values.x;
  if (inside(1)) y[place + 1] = values.y;
  if (inside(2)) y[place + 2] = values.z;
  if (inside(3)) y[place + 3] = values.w;
}

// The fill's first element need not begin a block, and where it does not, the places of whole blocks are aligned
// only where the array itself is off by as much.
template <class Formula>
void run(const Formula& formula, std::uint64_t key, std::int64_t first, const float* x, float* y, std::int64_t n) {
  if (n == 0) return;
  const std::int64_t blocks = ceil_div(first + n, 4) - first / 4;
  const auto aligned = [&](const float* p) {
    return (reinterpret_cast<std::uintptr_t>(p) - static_cast<std::uintptr_t>(first % 4) * sizeof(float)) % 16 == 0;
  };
  launch(fill_kernel<Formula>, {ceil_div(blocks, kThreads), kThreads}, formula, key, first, aligned(x) && aligned(y), x,
         y, n);
}

void fill_uniform(std::uint64_t key, std::int64_t first, float low, float high, float* out, std::int64_t n) {
  run(Uniform{low, high - low}, key, first, out, out, n);
}
void fill_normal(std::uint64_t key, std::int64_t first, float mean, float deviation, float* out, std::int64_t n) {
  run(Normal{mean, deviation}, key, first, out, out, n);
}
void fill_bernoulli(std::uint64_t key, std::int64_t first, double p, float* out, std::int64_t n) {
  run(Bernoulli{contract::bernoulli_threshold(p)}, key, first, out, out, n);
}
void fill_bernoulli_each(std::uint64_t key, std::int64_t first, const float* p, float* out, std::int64_t n) {
  run(BernoulliEach{}, key, first, p, out, n);
}
void dropout(std::uint64_t key, std::int64_t first, double keep, const float* x, float* y, std::int64_t n) {
  run(Dropout{contract::bernoulli_threshold(keep), 1.0f / static_cast<float>(keep)}, key, first, x, y, n);
}

}  // namespace

void fill_random(KernelTable& t) {
  t.fill_uniform = fill_uniform;
  t.fill_normal = fill_normal;
  t.fill_bernoulli = fill_bernoulli;
  t.fill_bernoulli_each = fill_bernoulli_each;
  t.dropout = dropout;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
