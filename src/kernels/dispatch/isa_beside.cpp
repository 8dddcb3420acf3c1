#include "kernels/isa_beside.h"

#include <algorithm>
#include <vector>

namespace isobit::kernels {
namespace {

// Whose kernels an implementation shares, but for products of the exact tier.
Isa family_of(Isa isa) {
  switch (isa) {
    case Isa::avx512vnni:
    case Isa::amx: return Isa::avx512;
    case Isa::emulated_vnni:
    case Isa::emulated_amx: return Isa::reference;
    case Isa::reference:
    case Isa::avx2:
    case Isa::avx512:
    case Isa::lanes16: return isa;
  }
  return isa;
}

}  // namespace

Isa isa_beside(Isa ran, std::span<const Isa> available) {
  const auto has = [&](Isa isa) { return std::find(available.begin(), available.end(), isa) != available.end(); };
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::lanes16}) {
    if (has(isa) && isa != family_of(ran)) return isa;
  }
  return has(family_of(ran)) ? family_of(ran) : Isa::reference;
}

Isa isa_beside(Isa ran) {
  const std::vector<Isa> available = available_isas();
  return isa_beside(ran, available);
}

// Whole steps of networks on an AMD EPYC: AVX2 takes 1.0 (Zen 4) to 1.9 (Zen 5) of AVX-512's time, the reference three
// to five times AVX2's.
double relative_time(Isa isa) {
  switch (family_of(isa)) {
    case Isa::avx512: return 1;
    case Isa::avx2:
    case Isa::lanes16: return 1.5;
    default: return 6;
  }
}

}  // namespace isobit::kernels
