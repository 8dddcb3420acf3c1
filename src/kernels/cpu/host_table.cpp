#include "kernels/cpu/host_table.h"

#include "kernels/cpu/vector_builds.h"
#include "kernels/device.h"
#include "kernels/float_environment.h"

namespace isobit::kernels {
namespace {

#define ISOBIT_FILL_ALL(space, t) \
  space::fill_recurrent(t);       \
  space::fill_resample(t)

HostTable make_host_table(Isa isa) {
  HostTable t;
  ISOBIT_FILL_ALL(reference, t);
  ISOBIT_FILL_VECTORS(isa, ISOBIT_FILL_ALL, t);
  return t;
}
#undef ISOBIT_FILL_ALL

}  // namespace

const HostTable& host_table_of(Isa isa) {
  static const HostTable tables[] = {make_host_table(Isa::reference), make_host_table(Isa::avx2),
                                     make_host_table(Isa::avx512), make_host_table(Isa::lanes16)};
  return tables[static_cast<int>(isa)];
}

const HostTable& active_host_table() {
  if (in_device_scope()) throw DeviceError("this kernel exists on the host only");
  return host_table_of(active_isa());
}

void resample_axis(const AxisTable& table, std::int64_t outer, std::int64_t inner, const float* x, float* y) {
  const FloatEnvironment environment;
  active_host_table().resample_axis(table, outer, inner, x, y);
}

}  // namespace isobit::kernels
