#include "aten/certified/support/element_sums.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "contract/pairwise_tree.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

// A destination's chain, until it is a leaf: one after another they take up the source as it lies in memory, where a
// list for each destination would jump about in it.
template <class T>
struct Chain {
  T sum = T(0);
  std::uint32_t leaves = 0, met = 0;  // met: in this leaf
};

// The destinations [first, first + count).
template <class T>
void add_part(std::int64_t n, const std::int64_t* to, std::int64_t first, std::int64_t count, const T* source,
              T* destination) {
  std::vector<Chain<T>> chains(static_cast<std::size_t>(count));
  std::unordered_map<std::int64_t, contract::PairwiseTreeOf<T>> trees;  // of those with a leaf behind them
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t r = to[k] - first;
    if (static_cast<std::uint64_t>(r) >= static_cast<std::uint64_t>(count)) continue;  // another part's
    Chain<T>& chain = chains[static_cast<std::size_t>(r)];
    chain.sum = chain.sum + source[k];
    if (++chain.met == contract::kLeaf) {
      trees[r].add(chain.sum);
      chain = {T(0), chain.leaves + 1, 0};
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    const Chain<T>& chain = chains[static_cast<std::size_t>(r)];
    if (chain.met == 0 && chain.leaves == 0) continue;
    T sum = chain.sum;
    if (chain.leaves > 0) {
      contract::PairwiseTreeOf<T>& tree = trees[r];
      if (chain.met > 0) tree.add(chain.sum);
      sum = tree.result();
    }
    destination[first + r] = destination[first + r] + sum;
  }
}

template <class T>
void add(std::int64_t n, const std::int64_t* to, std::int64_t rows, const T* source, T* destination) {
  // Each part reads all destinations: more than a few would only read.
  constexpr std::int64_t kMostParts = 8, kWork = 1 << 15;
  const std::int64_t parts =
      std::clamp(n / kWork, std::int64_t{1}, std::min<std::int64_t>(kMostParts, kernels::thread_count()));
  const std::int64_t size = (rows + parts - 1) / parts;
  kernels::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const kernels::FloatEnvironment environment;
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = part * size, count = std::min(size, rows - first);
      if (count > 0) add_part(n, to, first, count, source, destination);
    }
  });
}

}  // namespace

void add_elements(std::int64_t n, const std::int64_t* to, std::int64_t rows, const float* source, float* destination) {
  add(n, to, rows, source, destination);
}
void add_elements(std::int64_t n, const std::int64_t* to, std::int64_t rows, const double* source,
                  double* destination) {
  add(n, to, rows, source, destination);
}

}  // namespace isobit::aten
