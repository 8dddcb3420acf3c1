// Which vector builds of the kernels this program holds, for filling a table from the one of an instruction set.
#pragma once

#include "kernels/isa.h"

// fill(NAMESPACE, table) for the build of `isa`; nothing for the reference.
#ifdef ISOBIT_HAVE_X86_VECTORS
#define ISOBIT_FILL_VECTORS(isa, fill, table) \
  switch (isa) {                              \
    case Isa::reference:                      \
      break;                                  \
    case Isa::avx2:                           \
      fill(avx2, table);                      \
      break;                                  \
    case Isa::avx512:                         \
      fill(avx512, table);                    \
      break;                                  \
    case Isa::lanes16:                        \
      fill(lanes16, table);                   \
      break;                                  \
  }
#else
#define ISOBIT_FILL_VECTORS(isa, fill, table) static_cast<void>(isa)
#endif
