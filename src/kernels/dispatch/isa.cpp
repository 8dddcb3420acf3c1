#include "kernels/isa.h"

#include <atomic>
#include <stdexcept>
#include <utility>

#include "kernels/device.h"
#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels {
namespace {

struct Tables {
  KernelTable kernels;
  HostTable host;
};

// The reference first, so that empty slots of a vector build keep it. What this CPU lacks is not even filled in: the
// code that does so is compiled for that instruction set.
Tables make_tables(Isa isa) {
  Tables t;
  reference::fill_tables(t.kernels, t.host);
#ifdef ISOBIT_HAVE_X86_VECTORS
  if (!isa_available(isa)) return t;
  if (isa == Isa::avx2) avx2::fill_tables(t.kernels, t.host);
  if (isa == Isa::avx512) avx512::fill_tables(t.kernels, t.host);
  if (isa == Isa::lanes16) lanes16::fill_tables(t.kernels, t.host);
#endif
  return t;
}

const Tables& tables_of(Isa isa) {
  static const Tables tables[] = {make_tables(Isa::reference), make_tables(Isa::avx2), make_tables(Isa::avx512),
                                  make_tables(Isa::lanes16)};
  return tables[static_cast<int>(isa)];
}

std::atomic<const KernelTable*> active_pointer{nullptr};
std::atomic<Isa> active{Isa::reference};

const KernelTable& active_cpu_table() {
  const KernelTable* table = active_pointer.load(std::memory_order_acquire);
  if (table == nullptr) {
    set_isa(best_isa());
    table = active_pointer.load(std::memory_order_acquire);
  }
  return *table;
}

thread_local const HostTable* replaced_host_table = nullptr;

}  // namespace

HostTableScope::HostTableScope(const HostTable& table) : before_(std::exchange(replaced_host_table, &table)) {}
HostTableScope::~HostTableScope() { replaced_host_table = before_; }

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
  return avx2 && (isa != Isa::lanes16 || &lanes16::fill_tables != nullptr);
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

const KernelTable& table_of(Isa isa) { return tables_of(isa).kernels; }
const HostTable& host_table_of(Isa isa) { return tables_of(isa).host; }

const KernelTable& active_table() {
  if (device_table != nullptr) return *device_table;
  return active_cpu_table();
}

const HostTable& active_host_table() {
  if (in_device_scope()) throw DeviceError("this kernel has no GPU version");
  return replaced_host_table != nullptr ? *replaced_host_table : host_table_of(active_isa());
}

Isa active_isa() {
  (void)active_cpu_table();
  return active.load();
}

void set_isa(Isa isa) {
  if (!isa_available(isa)) {
    throw std::invalid_argument("instruction set '" + std::string(name(isa)) +
                                "' is not available in this build on this CPU");
  }
  active.store(isa);
  active_pointer.store(&table_of(isa), std::memory_order_release);
}

}  // namespace isobit::kernels
