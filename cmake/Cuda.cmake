# CUDA where it is of use; a build without it is complete, on CPUs only.
#
#   -DISOBIT_CUDA=auto   with nvcc and a GPU present (the default), for that GPU
#   -DISOBIT_CUDA=on     with nvcc, GPU or not (scripts/build --cuda), for the architectures below unless
#                        CMAKE_CUDA_ARCHITECTURES names others; an error without nvcc
#   -DISOBIT_CUDA=off    never
#
# Sets ISOBIT_HAVE_CUDA. The flags keep the contract (docs/contract.md, section 1): no contraction, subnormals
# kept, IEEE division and square root.
set(ISOBIT_CUDA auto CACHE STRING "Kernels for NVIDIA GPUs: auto (where a GPU is), on, off")
set_property(CACHE ISOBIT_CUDA PROPERTY STRINGS auto on off)
set(ISOBIT_HAVE_CUDA OFF)
# The sanitizers watch host code; the kernels' bodies are under them in the emulation.
if(ISOBIT_CUDA STREQUAL "off" OR ISOBIT_KERNELS_ONLY OR ISOBIT_SANITIZE OR CMAKE_CROSSCOMPILING)
  return()
endif()
if(ISOBIT_CUDA STREQUAL "auto" AND NOT EXISTS /dev/nvidia0)
  message(STATUS "no NVIDIA GPU here: built for CPUs (scripts/build --cuda builds for GPUs, too)")
  return()
endif()

set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(ISOBIT_CUDA STREQUAL "on")
    message(FATAL_ERROR "ISOBIT_CUDA is on, but nvcc is not on the PATH: install the CUDA toolkit, or leave out --cuda")
  endif()
  message(STATUS "nvcc not found: built without kernels for GPUs")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 90)
  if(ISOBIT_CUDA STREQUAL "auto")
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
    if(capabilities)
      list(TRANSFORM capabilities REPLACE "\\." "")
      list(REMOVE_DUPLICATES capabilities)
      set(CMAKE_CUDA_ARCHITECTURES ${capabilities})
    endif()
  endif()
endif()
if(ISOBIT_CCACHE_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ISOBIT_CCACHE_LAUNCHER})
endif()
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")  # no detour over CMake's defaults
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit REQUIRED)
set(ISOBIT_HAVE_CUDA ON)
