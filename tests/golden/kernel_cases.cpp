#include "golden/kernel_cases.h"

namespace isobit::golden {

const std::vector<Case>& kernel_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    add_dense_cases(all);
    add_reduce_cases(all);
    add_function_cases(all);
    add_training_cases(all);
    add_network_cases(all);
    add_row_cases(all);
    add_wide_cases(all);
    add_volume_cases(all);
    add_sampling_cases(all);
    add_recurrent_cases(all);
    add_factor_cases(all);
    add_binary64_cases(all);
    add_exact_product_cases(all);
    return all;
  }();
  return cases;
}

}  // namespace isobit::golden
