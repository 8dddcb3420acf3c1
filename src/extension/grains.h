// Steps of several grains as C functions (contract, sections 5 to 7): order and keys, exact sums of gradients, batch
// norm's running statistics. python/isobit/_loops/_grains.py is written on them.
//
// A function that returns const char* returns nullptr, or a message that stays valid until the thread's next call here;
// isobit_is_refusal (extension.h) tells whether it is a refusal's. Tensors are given as Python's `tensor._cdata`, which
// the caller keeps alive. A handle belongs to one thread at a time.
#pragma once

#include <cstdint>

extern "C" {

// derive_key(seed, purpose, a, b) of section 5.
std::uint64_t isobit_derive_key(std::uint64_t seed, std::uint32_t purpose, std::uint64_t a, std::uint32_t b);
// samples[count]: those at the positions first .. first + count - 1 of the plan over n samples (section 6); shuffled 0:
// rule `sequential`.
const char* isobit_order(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, int shuffled, std::int64_t first,
                         std::int64_t count, std::int64_t* samples);

// The exact sum of float32 tensors of one shape and device, of 2^17 grains at most.
struct isobit_sum;
const char* isobit_sum_create(void* like, isobit_sum** sum);
// *finite is 0, and nothing added, where an element is NaN or infinite.
const char* isobit_sum_add(isobit_sum* sum, void* tensor, int* finite);
const char* isobit_sum_merge(isobit_sum* sum, const isobit_sum* other);
// Into a contiguous tensor of that shape and device, rounded once; *finite is 0 where the sum exceeds binary32's range.
const char* isobit_sum_result(const isobit_sum* sum, void* tensor, int* finite);
void isobit_sum_clear(isobit_sum* sum);
void isobit_sum_free(isobit_sum* sum);
// *finite: whether every element of a float32 tensor is.
const char* isobit_is_finite(void* tensor, int* finite);

// What ranks that exchange slices of their gradients need (grains/exact_slice.h): the top limb of each of `count`
// consecutive pieces of a tensor, and the exact sums of rows [ranks, n] into out [n], whose consecutive segments have
// the top limbs `limbs`. *fits is 0 where a row exceeds them.
const char* isobit_top_limbs(void* tensor, const std::int64_t* lengths, std::int64_t count, int* limbs);
const char* isobit_sum_rows(void* rows, const std::int64_t* lengths, const int* limbs, std::int64_t count, void* out,
                            int* fits);

// ---- sums that several processes make together

// The top limb of what was added, -4 where that is nothing but zeros.
int isobit_sum_top(const isobit_sum* sum);

// One grain's running statistics (aten/batch_statistics.h): collected on this thread from begin to end, which are
// called in the order of nested scopes.
struct isobit_grain;
const char* isobit_grain_begin(isobit_grain** grain);
const char* isobit_grain_end(isobit_grain* grain);
// Of ended grains, given in grain order; ascending 0: they were computed in another order.
const char* isobit_grains_apply(isobit_grain* const* grains, std::int64_t count, int ascending);
void isobit_grain_free(isobit_grain* grain);
// What an ended grain keeps, call by call: the running tensors (as `tensor._cdata` has them; null where there is none),
// the momentum, and copies of the fresh mean and variance into contiguous tensors like the running ones.
std::int64_t isobit_grain_calls(const isobit_grain* grain);
const char* isobit_grain_call(const isobit_grain* grain, std::int64_t call, void** mean, void** variance,
                              double* momentum);
const char* isobit_grain_fresh(const isobit_grain* grain, std::int64_t call, void* mean, void* variance);
// A grain that was computed elsewhere; its calls are added in their order. Null: that the call had none.
const char* isobit_grain_received(isobit_grain** grain);
const char* isobit_grain_add(isobit_grain* grain, void* running_mean, void* running_variance, double momentum,
                             void* fresh_mean, void* fresh_variance);
}
