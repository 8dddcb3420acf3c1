// A tensor that an operator was given or gave, as a trace has it: fingerprint of every dtype, samples, statistics.
//
// The fingerprint is that of the contract (section 9), carried over to all dtypes by docs/formats/trace.md. What has
// none (sparse, quantized, nested, meta, types of less than a byte) is named in TensorTrace::without. Dense CPU tensors
// are read by their strides, without an operator of PyTorch: reading changes nothing that the program could see.
// Tensors of devices are copied to the host first. Thread-safe; uses the kernels' pool.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trace/trace_file.h"
#include "trace/trace_lines.h"

namespace isobit::trace {

struct OperandOptions {
  std::int64_t samples = 0;  // values of each tensor at most
  bool statistics = false;
};

// `key` decides at which indices samples are taken: the same on every machine.
[[nodiscard]] TensorTrace describe_operand(const at::Tensor& tensor, const std::string& key,
                                           const OperandOptions& options);
// Only dtype and shape, and why there is no more.
[[nodiscard]] TensorTrace describe_without(const at::Tensor& tensor, const char* why);

// All elements; complex ones as pairs in a last dimension of 2. False where they cannot be kept.
[[nodiscard]] bool keep_operand(const at::Tensor& tensor, KeptValues& values);

// Where samples of a tensor of `count` elements are taken: ascending, without repetition, at most `samples`; all
// where there are no more.
[[nodiscard]] std::vector<std::int64_t> sample_positions(const std::string& key, std::int64_t count,
                                                         std::int64_t samples);

}  // namespace isobit::trace
