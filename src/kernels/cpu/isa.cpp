#include "kernels/isa.h"

#include <atomic>
#include <stdexcept>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/vector_builds.h"

namespace isobit::kernels {
namespace {

// Every family of one namespace; the reference first, so that empty slots of a vector build keep it.
#define ISOBIT_FILL_ALL(space, t)  \
  space::fill_matmul(t);           \
  space::fill_conv2d(t);           \
  space::fill_reduce(t);           \
  space::fill_batch_norm(t);       \
  space::fill_group_norm(t);       \
  space::fill_softmax(t);          \
  space::fill_loss(t);             \
  space::fill_pool2d(t);           \
  space::fill_grid_sample(t);      \
  space::fill_pointwise(t);        \
  space::fill_activation(t);       \
  space::fill_wide_functions(t);   \
  space::fill_random(t);           \
  space::fill_optimizer(t);        \
  space::fill_exact_sum(t);        \
  space::fill_fingerprint(t)

KernelTable make_table(Isa isa) {
  KernelTable t;
  ISOBIT_FILL_ALL(reference, t);
  reference::fill_elementwise(t);
  reference::fill_indexed(t);
  reference::fill_scan(t);
  reference::fill_sort(t);
  reference::fill_place_rows(t);
  reference::fill_pool3d(t);
  ISOBIT_FILL_VECTORS(isa, ISOBIT_FILL_ALL, t);
  return t;
}
#undef ISOBIT_FILL_ALL

std::atomic<const KernelTable*> active_pointer{nullptr};
std::atomic<Isa> active{Isa::reference};

const KernelTable& host_table() {
  const KernelTable* table = active_pointer.load(std::memory_order_acquire);
  if (table == nullptr) {
    set_isa(best_isa());
    table = active_pointer.load(std::memory_order_acquire);
  }
  return *table;
}

}  // namespace

extern thread_local const KernelTable* device_table;  // device.cpp

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::reference: return "reference";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::lanes16: return "lanes16";
  }
  return "?";
}

std::optional<Isa> parse_isa(std::string_view text) {
  if (text == "auto") return best_isa();
  for (Isa isa : {Isa::reference, Isa::avx2, Isa::avx512, Isa::lanes16}) {
    if (text == name(isa)) return isa;
  }
  return std::nullopt;
}

bool isa_available(Isa isa) {
  if (isa == Isa::reference) return true;
#ifdef ISOBIT_HAVE_X86_VECTORS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::avx512) {
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  }
  return avx2;
#else
  return false;
#endif
}

std::vector<Isa> available_isas() {
  std::vector<Isa> found;
  for (Isa isa : {Isa::reference, Isa::avx2, Isa::avx512, Isa::lanes16}) {
    if (isa_available(isa)) found.push_back(isa);
  }
  return found;
}

Isa best_isa() {
  if (isa_available(Isa::avx512)) return Isa::avx512;
  return isa_available(Isa::avx2) ? Isa::avx2 : Isa::reference;
}

const KernelTable& table_of(Isa isa) {
  static const KernelTable tables[] = {make_table(Isa::reference), make_table(Isa::avx2),
                                       make_table(Isa::avx512), make_table(Isa::lanes16)};
  return tables[static_cast<int>(isa)];
}

const KernelTable& active_table() {
  if (device_table != nullptr) return *device_table;
  return host_table();
}

Isa active_isa() {
  (void)host_table();
  return active.load();
}

void set_isa(Isa isa) {
  if (!isa_available(isa)) {
    throw std::invalid_argument("instruction set '" + std::string(name(isa)) + "' is not available on this CPU");
  }
  active.store(isa);
  active_pointer.store(&table_of(isa), std::memory_order_release);
}

}  // namespace isobit::kernels
