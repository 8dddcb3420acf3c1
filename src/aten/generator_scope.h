// A generator of the thread's own, for grains that are computed side by side in one process.
//
// While a GeneratorScope lives, certified random operators that name no generator (dropout and the layers with dropout
// in them, too) draw from its CPU generator instead of the process' default one, on every device, also where a
// backward or a fork calls them on another thread. The numbers are those that the default generator would give after
// at::manual_seed(seed).
// What asks for the default generator by name (manual_seed, get_rng_state, fork_rng, and with them activation
// checkpointing) reaches the process' one. A scope belongs to its thread; scopes nest, and the innermost counts.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>

#include "aten/propagated.h"

namespace isobit::aten {

class GeneratorScope {
 public:
  explicit GeneratorScope(std::uint64_t seed);
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

  void seed(std::uint64_t seed);  // anew

 private:
  struct Own;
  friend at::Generator default_generator();
  std::shared_ptr<Own> own_;
  Propagated<Own> propagated_;
};

// What an operator draws from where its caller names no generator.
[[nodiscard]] at::Generator default_generator();

}  // namespace isobit::aten
