#include "aten/subnormals.h"

#include <cfenv>
#include <cstdint>

#include <ATen/Parallel.h>

#include "kernels/float_environment.h"

namespace isobit::aten {

// A new thread of torch's pool inherits the setting of the thread that needs it, so the pool is looked at again
// when its size has changed, or when this thread's setting had.
void keep_subnormals() {
  thread_local int pool_checked = 0;
  const int threads = at::get_num_threads();
  if (kernels::float_environment_is_ieee() && pool_checked == threads) return;
  std::fesetenv(FE_DFL_ENV);
  at::parallel_for(0, threads, 1, [](std::int64_t, std::int64_t) { std::fesetenv(FE_DFL_ENV); });
  pool_checked = threads;
}

}  // namespace isobit::aten
