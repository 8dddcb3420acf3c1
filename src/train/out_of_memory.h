// What to tell a user whose device has too little memory for a step. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "archive/user_error.h"

namespace isobit::train {

struct MemoryUse {
  std::string device;  // "cuda:0"
  std::int64_t step = 0;
  std::int64_t grain = 0;        // samples of a forward and backward pass
  std::int64_t fixed_bytes = 0;  // weights, gradients, optimizer: they do not shrink with the grain
};

// `message` as PyTorch words it: "Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 8.00 MiB
// is free. ...". The error names what was asked and what is free, and the largest power of two as a grain that fits if
// memory beside fixed_bytes grows with the grain; half of this one where the message does not say enough.
[[nodiscard]] archive::UserError out_of_memory(const std::string& message, const MemoryUse& use);

}  // namespace isobit::train
