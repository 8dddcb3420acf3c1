// The guard: while it lives, an operator that is not certified, exact or composite throws instead of computing.
//
// Fail closed: whatever classify() does not know is refused, for every backend and layout, and so is what a
// library registers while the guard lives, from its very definition. The first guard of a process takes
// some ten milliseconds to install (docs/guard.md). Construct and destroy while no other thread runs operators.
#pragma once

#include <memory>

namespace isobit::aten {

class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Throws, naming the operator, if some library has replaced a kernel of an allowed operator since the guard was
  // made: the dispatcher tells of new operators, but not of new kernels. What was found once is thrown for good, even
  // where the library has taken its kernel back. 0.15 to 1 ms; one thread at a time.
  void check_kernels() const;

 private:
  struct Installed;
  std::unique_ptr<Installed> installed_;
};

// The same for the guard in force, if there is one.
void check_kernels();

// The same at each step of a loop where a library has been loaded since the last look; else once in sixteen steps and
// 250 ms, so that it is lost in their time.
void check_kernels_in_turn();

}  // namespace isobit::aten
