# One place for the flags that the contract depends on (docs/contract.md, section 1).
#
# -ffp-contract=off: a*b+c is two roundings unless a formula writes fma.
# -fno-math-errno lets sqrt and fma become single instructions; it changes no value.
# Never -ffast-math, -Ofast or any of its parts.
find_program(ISOBIT_CCACHE ccache)
if(ISOBIT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths, so that clones and build folders share what they compile; precompiled headers go into the cache, too.
  set(ISOBIT_CCACHE_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${ISOBIT_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ISOBIT_CCACHE_LAUNCHER})
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-math-errno;-Wall;-Wextra;-Wno-psabi>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ collects its garbage from 1 GB on: a tenth of the time less, and no unit takes 2 GB.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1000000>")
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# What is called once per command, record or step, not per operator: compiled faster, by a quarter.
function(isobit_seldom_called target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

if(ISOBIT_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")  # the same bits; instrumented units compile in half the time
  add_compile_options(-fsanitize=${ISOBIT_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ISOBIT_SANITIZE})
  if(ISOBIT_SANITIZE MATCHES "undefined")
    add_compile_options(-fsanitize=float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow)
  endif()
endif()
