// Which implementation of the kernels runs. The choice never changes a bit of any result.
//
// Thread-safety: set_isa is for program start and tests; it must not race with running kernels.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::kernels {

enum class Isa {
  reference,  // the contract written plainly, one operation after the other
  avx2,       // 8 lanes
  avx512,     // 16 lanes
  lanes16,    // the 16-lane sources lowered to AVX2: for tests on machines without AVX-512
  // The kernels of avx512, but products of the exact tier (exact_products.h) by int8 instructions:
  avx512vnni,  // AVX-512 VNNI
  amx,         // AMX int8
  // The kernels of the reference, but these products by those sources with each instruction written out: for tests.
  emulated_vnni,
  emulated_amx,
};

[[nodiscard]] std::string_view name(Isa isa);
// By name; nullopt for an unknown one. "auto" is best_isa().
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view text);
// Built in and supported by this CPU. amx: the operating system must give its permission to this process, which is
// asked for then and stays.
[[nodiscard]] bool isa_available(Isa isa);
// Those whose kernels of all families differ: up to lanes16.
[[nodiscard]] std::vector<Isa> available_isas();
// Those whose products of the exact tier differ: all.
[[nodiscard]] std::vector<Isa> available_product_isas();
// The fastest available, for the ordered tier (never lanes16); and for the exact one (never an emulation).
[[nodiscard]] Isa best_isa();
[[nodiscard]] Isa best_product_isa();

[[nodiscard]] Isa active_isa();
// Precondition: isa_available(isa); throws std::invalid_argument otherwise. Automatic: nobody named it, so the exact
// tier may take best_product_isa() in its place (prefer_exact_products).
void set_isa(Isa isa, bool automatic = false);
// Called where the exact tier begins.
void prefer_exact_products();

// For tests: another implementation within a scope.
class IsaScope {
 public:
  explicit IsaScope(Isa isa) : before_(active_isa()) { set_isa(isa); }
  ~IsaScope() { set_isa(before_); }
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  Isa before_;
};

}  // namespace isobit::kernels
