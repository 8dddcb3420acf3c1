#include "extension/workers.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <string>
#include <vector>

#include "extension/reported.h"
#include "extension/sum_handle.h"
#include "kernels/exact_sum.h"
#include "scale/exact_reduce.h"

using isobit::extension::reported;
using isobit::extension::tensor_of;
namespace scale = isobit::scale;

struct isobit_exchange {
  explicit isobit_exchange(const std::string& process_group) : exchange(process_group) {}
  scale::Exchange exchange;
  scale::ReduceMemory memory;
};

namespace {

scale::OwnSums own_sums(std::int64_t count, std::int64_t grains, const isobit_sum* const* sums, void* const* singles) {
  scale::OwnSums own;
  own.grains = grains;
  for (std::int64_t i = 0; i < count; ++i) {
    int top = isobit::kernels::kNoLimb;
    if (grains == 1) {
      own.single.push_back(tensor_of(singles[i]));
      isobit::extension::require_float(own.single.back());
    } else if (grains > 1) {
      own.digits.push_back(sums[i] == nullptr ? nullptr : &sums[i]->digits);
    }
    if (grains > 0 && sums[i] != nullptr) top = sums[i]->digits.top();
    own.tops.push_back(top);
  }
  return own;
}

}  // namespace

const char* isobit_exchange_create(const char* process_group, isobit_exchange** exchange) {
  return reported([=] { *exchange = std::make_unique<isobit_exchange>(process_group).release(); });
}

void isobit_exchange_free(isobit_exchange* exchange) { delete exchange; }

const char* isobit_exchange_sum(isobit_exchange* exchange, std::int64_t count, const std::int64_t* elements,
                                const int* tops, const std::int64_t* grains, const isobit_sum* const* sums,
                                void* const* singles, void* results) {
  return reported([=] {
    const at::NoGradGuard no_grad;
    const std::int64_t ranks = exchange->exchange.size(), own = grains[exchange->exchange.rank()];
    scale::Reduce agreed;
    agreed.counts.assign(grains, grains + ranks);
    agreed.tops = scale::limb_bytes({tops, tops + count});
    const at::Tensor flat =
        scale::reduce_flat(exchange->exchange, own_sums(count, own, sums, singles), {elements, elements + count},
                           agreed, exchange->memory, scale::piece_of(ranks));
    tensor_of(results).set_(flat);
  });
}
