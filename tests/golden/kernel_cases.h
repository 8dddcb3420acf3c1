// One computation per kernel family and feature, its inputs made by Philox, its results as fingerprints.
//
// The same cases, written once, are the golden test on this machine (tests/kernels/golden_test.cpp, every
// instruction set and thread count) and a stand-alone program for other architectures (contract_golden.cpp).
// Uses the public kernels with whatever implementation is active; needs nothing but the standard library.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/fingerprint.h"

namespace isobit::golden {

struct Case {
  std::string name;  // family.feature
  std::function<kernels::Fingerprint()> compute;
  bool host_only = false;  // throws DeviceError on a device, which composes the result from other kernels
};

[[nodiscard]] const std::vector<Case>& kernel_cases();

// Defined one family group a file: cases_*.cpp.
void add_dense_cases(std::vector<Case>& cases);     // matmul, conv2d
void add_reduce_cases(std::vector<Case>& cases);    // sums, moments, batch norm, losses, pools
void add_function_cases(std::vector<Case>& cases);  // pointwise, softmax, random
void add_training_cases(std::vector<Case>& cases);  // optimizers, exact sums, order plans, host scalars
void add_network_cases(std::vector<Case>& cases);  // group norm, activations with parameters, additions by index, scans
void add_row_cases(std::vector<Case>& cases);      // sorts, products, running extrema, reductions by index, rows copied
void add_wide_cases(std::vector<Case>& cases);     // functions written in binary64, remainders, selections
void add_volume_cases(std::vector<Case>& cases);   // pooling in three dimensions, unpooling
void add_sampling_cases(std::vector<Case>& cases);       // grid_sample, sums along one dimension from a table
void add_recurrent_cases(std::vector<Case>& cases);      // LSTM, GRU, RNN
void add_factor_cases(std::vector<Case>& cases);         // QR, Cholesky, LU, numbers of distributions
void add_exact_product_cases(std::vector<Case>& cases);  // products of the exact tier
void add_binary64_cases(std::vector<Case>& cases);       // every family that computes in binary64

}  // namespace isobit::golden
