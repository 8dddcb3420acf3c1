# Which instruction sets the kernels are built for: ISOBIT_BUILT_ISAS, of those that this architecture has.
#
#   -DISOBIT_ISAS=all       every set: what wheels, tests and CI have
#   -DISOBIT_ISAS=machine   those that this CPU can run, looked up whenever CMake runs: for a build that stays here
#   -DISOBIT_ISAS=avx2      these alone, with ; between them; none leaves the reference
# The reference is always built. scripts/build passes the choice on (--all-isas, --machine-isas).
set(ISOBIT_ISAS all CACHE STRING "all, machine, none, or instruction sets with ; between them")

set(ISOBIT_X86_ISAS avx2 avx512 avx512vnni amx)
# What a CPU says of itself in /proc/cpuinfo where it can run the set (src/kernels/dispatch/isa.cpp asks it again at run
# time). A set on another: its products need the other's kernels.
set(ISOBIT_CPU_FLAGS_avx2 avx2 fma)
set(ISOBIT_CPU_FLAGS_avx512 ${ISOBIT_CPU_FLAGS_avx2} avx512f avx512vl avx512dq avx512bw)
set(ISOBIT_CPU_FLAGS_avx512vnni ${ISOBIT_CPU_FLAGS_avx512} avx512_vnni)
set(ISOBIT_CPU_FLAGS_amx ${ISOBIT_CPU_FLAGS_avx512} avx512vbmi amx_tile amx_int8)

function(isobit_isas_of_machine result)
  set(found "")
  if(EXISTS /proc/cpuinfo AND NOT CMAKE_CROSSCOMPILING)
    file(STRINGS /proc/cpuinfo line REGEX "^flags[ \t]*:" LIMIT_COUNT 1)
    string(REGEX MATCHALL "[a-z0-9_]+" flags "${line}")
    foreach(isa ${ISOBIT_X86_ISAS})
      set(missing ${ISOBIT_CPU_FLAGS_${isa}})
      list(REMOVE_ITEM missing ${flags})
      if(NOT missing)
        list(APPEND found ${isa})
      endif()
    endforeach()
  else()
    set(found ${ISOBIT_X86_ISAS})  # nothing says what runs there
  endif()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

if(ISOBIT_ISAS STREQUAL "all")
  set(ISOBIT_BUILT_ISAS ${ISOBIT_X86_ISAS})
elseif(ISOBIT_ISAS STREQUAL "machine")
  isobit_isas_of_machine(ISOBIT_BUILT_ISAS)
elseif(ISOBIT_ISAS STREQUAL "none")
  set(ISOBIT_BUILT_ISAS "")
else()
  set(ISOBIT_BUILT_ISAS ${ISOBIT_ISAS})
endif()
foreach(isa ${ISOBIT_BUILT_ISAS})
  if(NOT isa IN_LIST ISOBIT_X86_ISAS)
    message(FATAL_ERROR "ISOBIT_ISAS: '${isa}' is no instruction set: all, machine, none, or of ${ISOBIT_X86_ISAS}")
  endif()
  if(isa MATCHES "^(avx512vnni|amx)$" AND NOT "avx512" IN_LIST ISOBIT_BUILT_ISAS)
    message(FATAL_ERROR "ISOBIT_ISAS: ${isa} needs avx512, whose other kernels it shares")
  endif()
endforeach()
