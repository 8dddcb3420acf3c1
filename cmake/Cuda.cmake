# CUDA where nvcc is found; a build without it is complete, on CPUs only.
#
# Sets ISOBIT_HAVE_CUDA. The flags keep the contract (docs/contract.md, section 1): no contraction, subnormals
# kept, IEEE division and square root.
option(ISOBIT_WITH_CUDA "Build the kernels for NVIDIA GPUs where nvcc is found" ON)
set(ISOBIT_HAVE_CUDA OFF)
# The sanitizers watch host code; the kernels' bodies are under them in the emulation.
if(NOT ISOBIT_WITH_CUDA OR ISOBIT_KERNELS_ONLY OR ISOBIT_SANITIZE OR CMAKE_CROSSCOMPILING)
  return()
endif()

set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "nvcc not found: built without kernels for GPUs")
  return()
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 90)
endif()
if(ISOBIT_CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ISOBIT_CCACHE})
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
