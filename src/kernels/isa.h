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
};

[[nodiscard]] std::string_view name(Isa isa);
// By name; nullopt for an unknown one. "auto" is best_isa().
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view text);
// Built in and supported by this CPU.
[[nodiscard]] bool isa_available(Isa isa);
[[nodiscard]] std::vector<Isa> available_isas();
// The fastest available (never lanes16).
[[nodiscard]] Isa best_isa();

[[nodiscard]] Isa active_isa();
// Precondition: isa_available(isa); throws std::invalid_argument otherwise.
void set_isa(Isa isa);

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
