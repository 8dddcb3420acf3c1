#include "kernels/float_environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace isobit::kernels {

#if defined(__x86_64__)
namespace {
// Exceptions masked, round to nearest, flush-to-zero and denormals-are-zero off; the low six bits are sticky
// exception flags and do not matter.
constexpr std::uint32_t kIeee = 0x1f80;
constexpr std::uint32_t kFlags = 0x003f;
}  // namespace

FloatEnvironment::FloatEnvironment() : before_(_mm_getcsr()), changed_((before_ & ~kFlags) != kIeee) {
  if (changed_) _mm_setcsr(kIeee);
}
FloatEnvironment::~FloatEnvironment() {
  if (changed_) _mm_setcsr(static_cast<std::uint32_t>(before_));
}
bool float_environment_is_ieee() { return (_mm_getcsr() & ~kFlags) == kIeee; }

#elif defined(__aarch64__)
// FPCR: bits 22-23 rounding mode, 24 flush-to-zero, 25 default NaN, 19 FZ16; all zero is IEEE.
namespace {
constexpr std::uint64_t kModes = (3ull << 22) | (1ull << 24) | (1ull << 25) | (1ull << 19);
std::uint64_t read_fpcr() {
  std::uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void write_fpcr(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
}  // namespace

FloatEnvironment::FloatEnvironment() : before_(read_fpcr()), changed_((before_ & kModes) != 0) {
  if (changed_) write_fpcr(before_ & ~kModes);
}
FloatEnvironment::~FloatEnvironment() {
  if (changed_) write_fpcr(before_);
}
bool float_environment_is_ieee() { return (read_fpcr() & kModes) == 0; }

#else  // POWER, RISC-V: no flush-to-zero mode for the scalar and vector binary32 operations used
FloatEnvironment::FloatEnvironment()
    : before_(static_cast<std::uint64_t>(std::fegetround())), changed_(std::fegetround() != FE_TONEAREST) {
  if (changed_) std::fesetround(FE_TONEAREST);
}
FloatEnvironment::~FloatEnvironment() {
  if (changed_) std::fesetround(static_cast<int>(before_));
}
bool float_environment_is_ieee() { return std::fegetround() == FE_TONEAREST; }
#endif

}  // namespace isobit::kernels
