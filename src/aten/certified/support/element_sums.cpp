#include "aten/certified/support/element_sums.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "contract/pairwise_tree.h"
#include "kernels/float_environment.h"
#include "kernels/threads.h"

namespace isobit::aten {
namespace {

// A destination's chain: one after another they take up the source as it lies in memory, where a list for each
// destination would jump about in it.
template <class T>
struct Chain {
  T sum = T(0);           // of the leaf that is not full
  std::uint32_t met = 0;  // in all
};

// Chains that nothing has met yet, and will be so again: few of many destinations then cost what they take, no more.
template <class T>
std::vector<Chain<T>>& clean_chains(std::int64_t count, std::vector<Chain<T>>& own) {
  constexpr std::int64_t kKept = 1 << 19;  // 4 MiB of float32 a thread
  thread_local std::vector<Chain<T>> kept;
  std::vector<Chain<T>>& chains = count <= kKept ? kept : own;
  if (static_cast<std::int64_t>(chains.size()) < count) chains.resize(static_cast<std::size_t>(count));
  return chains;
}

// The chains of all destinations where each has less than a leaf and none is left out, which one pass without branches
// tells; else false, and the chains are clean.
template <class T>
bool add_short_chains(std::int64_t n, const std::int64_t* to, std::int64_t rows, const T* source, Chain<T>* chains) {
  std::uint32_t met = 0;  // below kLeaf where every count is: kLeaf is a power of two
  std::int64_t k = 0;
  for (; k < n && static_cast<std::uint64_t>(to[k]) < static_cast<std::uint64_t>(rows); ++k) {
    Chain<T>& chain = chains[to[k]];
    chain.sum = chain.sum + source[k];
    met |= ++chain.met;
  }
  static_assert((contract::kLeaf & (contract::kLeaf - 1)) == 0);
  if (k == n && met < contract::kLeaf) return true;
  while (k > 0) chains[to[--k]] = {};
  return false;
}

// The destinations [first, first + count).
template <class T>
void add_part(std::int64_t n, const std::int64_t* to, std::int64_t rows, std::int64_t first, std::int64_t count,
              const T* source, T* destination) {
  constexpr std::int64_t kLikelyLeaf = contract::kLeaf / 2;  // of a mean of more occurrences one likely fills a leaf
  std::vector<Chain<T>> own;
  Chain<T>* const chains = clean_chains(count, own).data();
  std::unordered_map<std::int64_t, contract::PairwiseTreeOf<T>> trees;  // of those with a leaf behind them
  const auto is_ours = [&](std::int64_t r) {
    return static_cast<std::uint64_t>(r) < static_cast<std::uint64_t>(count);
  };
  const bool all = first == 0 && count == rows && n / kLikelyLeaf < rows;
  try {
    const bool done = all && add_short_chains(n, to, rows, source, chains);
    for (std::int64_t k = 0; !done && k < n; ++k) {
      const std::int64_t r = to[k] - first;
      if (!is_ours(r)) continue;
      Chain<T>& chain = chains[r];
      chain.sum = chain.sum + source[k];
      if (++chain.met % contract::kLeaf == 0) trees[r].add(chain.sum), chain.sum = T(0);
    }
  } catch (...) {  // a tree's memory was refused; the next sum finds clean chains
    for (std::int64_t k = 0; k < n; ++k) {
      if (is_ours(to[k] - first)) chains[to[k] - first] = {};
    }
    throw;
  }
  const auto finish = [&](std::int64_t r) {
    const Chain<T> chain = chains[r];
    if (chain.met == 0) return;
    chains[r] = {};
    T sum = chain.sum;
    if (chain.met >= contract::kLeaf) {
      contract::PairwiseTreeOf<T>& tree = trees[r];
      if (chain.met % contract::kLeaf != 0) tree.add(chain.sum);
      sum = tree.result();
    }
    destination[first + r] = destination[first + r] + sum;
  };
  if (count <= n) {
    for (std::int64_t r = 0; r < count; ++r) finish(r);
    return;
  }
  for (std::int64_t k = 0; k < n; ++k) {
    if (is_ours(to[k] - first)) finish(to[k] - first);
  }
}

template <class T>
void add(std::int64_t n, const std::int64_t* to, std::int64_t rows, const T* source, T* destination) {
  // Each part reads all destinations: more than a few would only read.
  constexpr std::int64_t kMostParts = 8, kWork = 1 << 15;
  const std::int64_t most = std::min<std::int64_t>(kMostParts, kernels::thread_count());
  const std::int64_t parts = std::clamp(n / kWork, std::int64_t{1}, most), size = (rows + parts - 1) / parts;
  kernels::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const kernels::FloatEnvironment environment;
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t first = part * size, count = std::min(size, rows - first);
      if (count > 0) add_part(n, to, rows, first, count, source, destination);
    }
  });
}

}  // namespace

bool takes_elements(std::int64_t n, std::int64_t rows) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // chains count in 32 bits
  return n < kMost && (rows <= 1 << 19 || n > rows / 16);
}
void add_elements(std::int64_t n, const std::int64_t* to, std::int64_t rows, const float* source, float* destination) {
  add(n, to, rows, source, destination);
}
void add_elements(std::int64_t n, const std::int64_t* to, std::int64_t rows, const double* source,
                  double* destination) {
  add(n, to, rows, source, destination);
}

}  // namespace isobit::aten
