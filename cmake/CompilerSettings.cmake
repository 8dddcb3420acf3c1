# One place for the flags that the contract depends on (docs/contract.md, section 1).
#
# -ffp-contract=off: a*b+c is two roundings unless a formula writes fma.
# -fno-math-errno lets sqrt and fma become single instructions; it changes no value.
# Never -ffast-math, -Ofast or any of its parts.
find_program(ISOBIT_CCACHE ccache)
if(ISOBIT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ISOBIT_CCACHE})
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off;-fno-math-errno;-Wall;-Wextra;-Wno-psabi>")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

if(ISOBIT_SANITIZE)
  add_compile_options(-fsanitize=${ISOBIT_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ISOBIT_SANITIZE})
  if(ISOBIT_SANITIZE STREQUAL "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
