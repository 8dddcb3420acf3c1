// One step of the sums of all workers of a group (contract, section 7): exact, so that neither their number nor who
// computed which grain shows.
//
// The flat sequence of all parameters' elements is cut into pieces, each piece into one slice for each worker. A worker
// with one grain sends its float32 gradients, one with several the sums of their two digits as one binary64 number
// each: exact where the terms of an element lie less than some 2^29 apart. Blocks of 1,024 elements in which one is not
// begin with NaN, and their int64 digits follow. The owner of a slice adds the numbers as long as each addition is
// exact, else their digits, rounds once, and all gather the float32 slices. For one grain a worker that is 8 (n - 1) /
// n bytes an element in each direction, as a ring's all-reduce; otherwise 12 (n - 1) / n, and at most 28. Messages go
// straight from where the gradients lie to where they are added, results to where they stay. What else grains leave
// (losses, counts, running statistics, digests) is gathered by all.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "grains/grain_sums.h"
#include "scale/exchange.h"
#include "scale/messages.h"

namespace isobit::scale {

// All that grains left but their gradients, as bytes. Running tensors are named by their place among `buffers`;
// UserError for one that is not there.
[[nodiscard]] Bytes pack(const grains::GrainSums::Rest& rest, const std::vector<trace::NamedTensor>& buffers);
// WireError for bytes that pack() did not make.
[[nodiscard]] grains::GrainSums::Rest unpack(std::span<const std::uint8_t> bytes,
                                             const std::vector<trace::NamedTensor>& buffers);

// Limbs as bytes (limb + 8), for Finish.
[[nodiscard]] Bytes limb_bytes(const std::vector<int>& limbs);

// Memory of a worker's sums that is kept from step to step: what the system gives anew it clears first, a page at a
// time. The last step's gradients lie in it while somebody has them; then the next step's lie elsewhere.
struct ReduceMemory {
  // So many elements that nobody else has.
  [[nodiscard]] at::Tensor results(std::int64_t elements);
  // By piece under way and rank.
  static constexpr std::size_t kPieces = 4;
  std::array<std::vector<Bytes>, kPieces> outgoing, incoming;

 private:
  at::Tensor results_;
};

// `sums` stays as it is where an exchange fails (ExchangeLost); its rest is used up where it succeeds. Throws
// NotFinite, the same in all workers, where a sum exceeds binary32's range. `packed`: pack() of its rest.
[[nodiscard]] grains::FinishedStep exact_reduce(Exchange& exchange, grains::GrainSums& sums,
                                                const std::vector<trace::NamedTensor>& parameters,
                                                const std::vector<trace::NamedTensor>& buffers, const Bytes& packed,
                                                const Reduce& agreed, ReduceMemory& memory);

// Elements of a piece: few enough that the next ones are laid out, and the last ones added, while some travel.
inline constexpr std::int64_t kPiece = std::int64_t{1} << 20;
// In large groups slices stay long enough that their number of messages does not count.
[[nodiscard]] constexpr std::int64_t piece_of(std::int64_t workers) {
  return workers << 16 > kPiece ? workers << 16 : kPiece;
}

// What a worker has of a step's gradients, by parameter: those of one grain, or the sums of several.
struct OwnSums {
  std::vector<at::Tensor> single;                          // float32, contiguous
  std::vector<const grains::GradientAccumulator*> digits;  // nullptr: all zero
  std::vector<int> tops;                                   // top limbs; kernels::kNoLimb: all zero
  std::int64_t grains = 0;
};

// All gradients, one after the other, in memory of `memory`; of parameters of so many elements.
[[nodiscard]] at::Tensor reduce_flat(Exchange& exchange, const OwnSums& sums, const std::vector<std::int64_t>& elements,
                                     const Reduce& agreed, ReduceMemory& memory, std::int64_t piece = kPiece);

// The gradients alone; sizes as the parameters'.
[[nodiscard]] std::vector<at::Tensor> reduce_gradients(Exchange& exchange, const grains::GrainSums& sums,
                                                       const std::vector<trace::NamedTensor>& parameters,
                                                       const Reduce& agreed, ReduceMemory& memory,
                                                       std::int64_t piece = kPiece);

}  // namespace isobit::scale
