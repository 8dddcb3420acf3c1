// MPFR's exponent range is global state: narrowed within a scope, given back after it.
#pragma once

#include <mpfr.h>

namespace isobit {

class MpfrRange {
 public:
  MpfrRange(mpfr_exp_t least, mpfr_exp_t most) : least_(mpfr_get_emin()), most_(mpfr_get_emax()) {
    mpfr_set_emin(least);
    mpfr_set_emax(most);
  }
  ~MpfrRange() {
    mpfr_set_emin(least_);
    mpfr_set_emax(most_);
  }
  MpfrRange(const MpfrRange&) = delete;
  MpfrRange& operator=(const MpfrRange&) = delete;

 private:
  mpfr_exp_t least_, most_;
};

// The ranges of the IEEE formats, as mpfr_subnormalize wants them.
inline constexpr mpfr_exp_t kLeastBinary32 = -148, kMostBinary32 = 128, kLeastBinary64 = -1073, kMostBinary64 = 1024;

}  // namespace isobit
