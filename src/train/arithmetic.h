// Which arithmetic an experiment asks for (arithmetic.kind), its name in records, and what puts it into force.
//
//   isobit   the contract: the operator switch is on, with the tier of products that arithmetic.products names
//   stock    PyTorch as it comes, with what it offers for equal results: one seed per step for its own generator, and
//            torch.use_deterministic_algorithms in its warning form. Which kernels run is PyTorch's choice, by the
//            processor, the number of threads, and variables such as ATEN_CPU_CAPABILITY and MKL_CBWR.
//
// Both start from the same initial weights and see the same batches: weights, order and augmentation are drawn by the
// contract's generator (contract, section 5), so two runs differ by their arithmetic alone. Dropout under stock draws
// from PyTorch's own generator, seeded anew before each step; the numbers are others than isobit's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "contract/product_tier.h"
#include "train/experiment.h"

namespace isobit::train {

// What stands in records where a contract's name stands: "isobit-0.1", "isobit-0.1-exact3", or "stock-2.13.0".
[[nodiscard]] std::string contract_of(const ArithmeticSettings& arithmetic);

// The settings that a record names in that place, whichever version's it is.
[[nodiscard]] ArithmeticSettings arithmetic_of(std::string_view contract);
// The same of an experiment's text (archive/experiment_text.h). A tier that there is not is left as it stands.
[[nodiscard]] ArithmeticSettings asked_arithmetic(std::string_view experiment);

// Precondition: not stock.
[[nodiscard]] contract::ProductTier products_of(const ArithmeticSettings& arithmetic);

// PyTorch's default generator, as torch.manual_seed. Thread-safe.
void seed_stock(std::uint64_t seed);

// How stock PyTorch computes in this process within an ArithmeticScope, for environment.json: the processor's
// capability that its kernels are chosen for, versions of MKL, oneDNN and OpenMP, and whether deterministic algorithms
// are asked for.
[[nodiscard]] std::map<std::string, std::string> stock_environment();

// The experiment's arithmetic is in force while the object lives. Stock uses as many threads as the kernels' pool has.
// Process-wide, as the operator switch: construct and destroy it while no other thread runs operators. Throws
// std::logic_error where stock is asked for while the switch is on.
class ArithmeticScope {
 public:
  explicit ArithmeticScope(const Experiment& experiment);
  ~ArithmeticScope();
  ArithmeticScope(const ArithmeticScope&) = delete;
  ArithmeticScope& operator=(const ArithmeticScope&) = delete;

 private:
  struct Isobit;
  struct Stock;
  std::unique_ptr<Isobit> isobit_;
  std::unique_ptr<Stock> stock_;
};

}  // namespace isobit::train
