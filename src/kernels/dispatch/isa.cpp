#include "kernels/isa.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <stdexcept>
#include <utility>

#include "kernels/device.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/isa_left_out.h"

// What was left out of this build (cmake/InstructionSets.cmake).
#ifndef ISOBIT_WITHOUT_AVX2
#define ISOBIT_WITHOUT_AVX2 0
#endif
#ifndef ISOBIT_WITHOUT_AVX512
#define ISOBIT_WITHOUT_AVX512 0
#endif
#ifndef ISOBIT_WITHOUT_AVX512VNNI
#define ISOBIT_WITHOUT_AVX512VNNI 0
#endif
#ifndef ISOBIT_WITHOUT_AMX
#define ISOBIT_WITHOUT_AMX 0
#endif

namespace isobit::kernels {
namespace {

constexpr bool left_out(Isa isa) {
  switch (isa) {
    case Isa::avx2: return ISOBIT_WITHOUT_AVX2;
    case Isa::avx512: return ISOBIT_WITHOUT_AVX512;
    case Isa::avx512vnni: return ISOBIT_WITHOUT_AVX512VNNI;
    case Isa::amx: return ISOBIT_WITHOUT_AMX;
    case Isa::reference:
    case Isa::lanes16:
    case Isa::emulated_vnni:
    case Isa::emulated_amx: return false;
  }
  return false;
}

struct Tables {
  KernelTable kernels;
  HostTable host;
};

// The reference first, so that empty slots of a vector build keep it. What this CPU lacks is not even filled in: the
// code that does so is compiled for that instruction set. What was left out has no such code.
Tables make_tables(Isa isa) {
  Tables t;
  reference::fill_tables(t.kernels, t.host);
#ifdef ISOBIT_HAVE_X86_VECTORS
  if (!isa_available(isa)) return t;
  if constexpr (!left_out(Isa::avx2)) {
    if (isa == Isa::avx2) avx2::fill_tables(t.kernels, t.host);
  }
  if constexpr (!left_out(Isa::avx512)) {
    if (isa == Isa::avx512 || isa == Isa::avx512vnni || isa == Isa::amx) avx512::fill_tables(t.kernels, t.host);
  }
  if constexpr (!left_out(Isa::avx512vnni)) {
    if (isa == Isa::avx512vnni) avx512vnni::fill_exact_products(t.kernels);
  }
  if constexpr (!left_out(Isa::amx)) {
    if (isa == Isa::amx) amx::fill_exact_products(t.kernels);
  }
  if (isa == Isa::lanes16) lanes16::fill_tables(t.kernels, t.host);
  if (isa == Isa::emulated_vnni) emulated_vnni::fill_exact_products(t.kernels);
  if (isa == Isa::emulated_amx) emulated_amx::fill_exact_products(t.kernels);
#endif
  return t;
}

const Tables& tables_of(Isa isa) {
  static const Tables tables[] = {make_tables(Isa::reference), make_tables(Isa::avx2), make_tables(Isa::avx512),
                                  make_tables(Isa::lanes16)};
  // Apart, so that nothing asks the system for AMX that does not mean to use it.
  static const Tables int8_tables[] = {make_tables(Isa::avx512vnni), make_tables(Isa::emulated_vnni),
                                       make_tables(Isa::emulated_amx)};
  switch (isa) {
    case Isa::reference:
    case Isa::avx2:
    case Isa::avx512:
    case Isa::lanes16: return tables[static_cast<int>(isa)];
    case Isa::avx512vnni: return int8_tables[0];
    case Isa::emulated_vnni: return int8_tables[1];
    case Isa::emulated_amx: return int8_tables[2];
    case Isa::amx: break;
  }
  static const Tables amx_tables = make_tables(Isa::amx);
  return amx_tables;
}

constexpr Isa kFamilyIsas[] = {Isa::reference, Isa::avx2, Isa::avx512, Isa::lanes16};
constexpr Isa kAllIsas[] = {Isa::reference,  Isa::avx2, Isa::avx512,        Isa::lanes16,
                            Isa::avx512vnni, Isa::amx,  Isa::emulated_vnni, Isa::emulated_amx};

#ifdef ISOBIT_HAVE_X86_VECTORS
bool cpu_has_avx512() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

// Linux gives a process its tiles (8 KiB a thread) when it asks: since 5.16, and not in every virtual machine. CPUID
// leaf 7: AMX-TILE is bit 24, AMX-INT8 bit 25 of EDX.
bool amx_granted() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned int a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 24 & 1) == 0 || (d >> 25 & 1) == 0) return false;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool has_amx() {
  static const bool granted = cpu_has_avx512() && __builtin_cpu_supports("avx512vbmi") && amx_granted();
  return granted;
}
#endif

// By this CPU and, for what tests alone use, by what is linked.
bool can_run(Isa isa) {
  if (isa == Isa::reference) return true;
#ifdef ISOBIT_HAVE_X86_VECTORS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  switch (isa) {
    case Isa::reference: return true;
    case Isa::avx2: return avx2;
    case Isa::avx512: return cpu_has_avx512();
    case Isa::lanes16: return avx2 && &lanes16::fill_tables != nullptr;
    case Isa::avx512vnni: return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni");
    case Isa::amx: return has_amx();
    case Isa::emulated_vnni: return &emulated_vnni::fill_exact_products != nullptr;
    case Isa::emulated_amx: return &emulated_amx::fill_exact_products != nullptr;
  }
#endif
  return false;
}

std::atomic<const KernelTable*> active_pointer{nullptr};
std::atomic<Isa> active{Isa::reference};
std::atomic<bool> active_is_automatic{false};

const KernelTable& active_cpu_table() {
  const KernelTable* table = active_pointer.load(std::memory_order_acquire);
  if (table == nullptr) {
    set_isa(best_isa(), true);
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
    case Isa::avx512vnni: return "avx512vnni";
    case Isa::amx: return "amx";
    case Isa::emulated_vnni: return "emulated_vnni";
    case Isa::emulated_amx: return "emulated_amx";
  }
  return "?";
}

std::optional<Isa> parse_isa(std::string_view text) {
  if (text == "auto") return best_isa();
  for (const Isa isa : kAllIsas) {
    if (text == name(isa)) return isa;
  }
  return std::nullopt;
}

bool isa_available(Isa isa) { return !left_out(isa) && can_run(isa); }

bool isa_left_out(Isa isa) { return left_out(isa) && can_run(isa); }

std::vector<Isa> available_isas() {
  std::vector<Isa> found;
  for (const Isa isa : kFamilyIsas) {
    if (isa_available(isa)) found.push_back(isa);
  }
  return found;
}

std::vector<Isa> available_product_isas() {
  std::vector<Isa> found;
  for (const Isa isa : kAllIsas) {
    if (isa_available(isa)) found.push_back(isa);
  }
  return found;
}

Isa best_isa() {
  if (isa_available(Isa::avx512)) return Isa::avx512;
  return isa_available(Isa::avx2) ? Isa::avx2 : Isa::reference;
}

Isa best_product_isa() {
  for (const Isa isa : {Isa::amx, Isa::avx512vnni}) {
    if (isa_available(isa)) return isa;
  }
  return best_isa();
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

void set_isa(Isa isa, bool automatic) {
  if (!isa_available(isa)) {
    throw std::invalid_argument("instruction set '" + std::string(name(isa)) +
                                (isa_left_out(isa) ? "' was not built: scripts/build --all-isas builds all"
                                                   : "' is not available in this build on this CPU"));
  }
  active.store(isa);
  active_is_automatic.store(automatic);
  active_pointer.store(&table_of(isa), std::memory_order_release);
}

void prefer_exact_products() {
  (void)active_cpu_table();
  if (active_is_automatic) set_isa(best_product_isa(), true);
}

}  // namespace isobit::kernels
