// Weighted sums along one dimension, output after output, as resample.h writes them.
#include "kernels/resample.h"

#include <cmath>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::kernels::reference {
namespace {

void resample_axis(const AxisTable& t, std::int64_t outer, std::int64_t inner, const float* x, float* y) {
  parallel_for(0, outer * t.out, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const from = x + i / t.out * t.in * inner;
      const std::int64_t row = i % t.out;
      for (std::int64_t j = 0; j < inner; ++j) {
        float sum = 0.0f;
        for (std::int32_t e = t.begin[row]; e < t.begin[row + 1]; ++e) {
          sum = std::fma(t.weight[e], from[t.source[e] * inner + j], sum);
        }
        y[i * inner + j] = sum;
      }
    }
  });
}

}  // namespace

void fill_resample(HostTable& t) { t.resample_axis = resample_axis; }

}  // namespace isobit::kernels::reference
