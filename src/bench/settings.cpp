#include <ATen/Parallel.h>

#include "aten/operator_switch.h"
#include "bench/bench.h"
#include "kernels/isa.h"
#include "kernels/threads.h"

namespace isobit::bench {

void for_each_setting(const BenchOptions& options, const std::function<void(int, const std::string&)>& body) {
  for (int threads : options.threads) {
    for (const std::string& isa : options.isas) {
      const bool best = isa == "auto" && options.products != "ordered";
      const kernels::IsaScope scope(best ? kernels::best_product_isa() : kernels::parse_isa(isa).value());
      body(threads, std::string(kernels::name(kernels::active_isa())));
    }
  }
}

double on_stock(int threads, const std::function<double()>& body) {
  at::set_num_threads(threads);
  return body();
}

// torch's own loops (copies, IEEE additions) stay on the calling thread while ours run: as in `isobit run`.
double on_isobit(int threads, const std::function<double()>& body, const std::string& products) {
  at::set_num_threads(1);
  const kernels::ThreadCountScope scope(threads);
  const aten::OperatorSwitch on(contract::parse_products(products).value());
  return body();
}

}  // namespace isobit::bench
