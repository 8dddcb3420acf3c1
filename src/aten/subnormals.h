// Subnormals kept on the calling thread and in torch's pool, whatever another library set (contract, section 1).
//
// Our kernels restore what they find (kernels/float_environment.h); this is for stock's that are exact, which run
// on torch's threads. What it finds is undone for good. A few nanoseconds where nothing is to be done; thread-safe.
#pragma once

namespace isobit::aten {

void keep_subnormals();

// Whatever was looked at is looked at again: what ran while the switch was off may have made threads of its own
// setting.
void forget_checked_pools();

}  // namespace isobit::aten
