// Where the reference's sources define their kernels: reference; in a vector build, which compiles some of them once
// more for binary64 (cpu/vector/binary64_networks.cpp and binary64_places.cpp), the instruction set's namespace.
#pragma once

#ifdef ISOBIT_LANES
#define ISOBIT_PLAIN ISOBIT_ISA
#else
#define ISOBIT_PLAIN reference
#endif
