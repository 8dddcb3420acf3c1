# Precompiled headers: what nearly every unit of a target includes, parsed once.
#
# One unit on ATen's headers takes 7 s, 5 of them for the headers (scripts/build --profile). Only <headers> by their
# system name: a path of this checkout in the list would keep the compiler cache from hitting in another clone.
option(ISOBIT_PRECOMPILE "Precompile the headers of torch, JSON and the command line" ON)

set(ISOBIT_ATEN_HEADERS
  <ATen/core/Tensor.h> <ATen/ops/empty.h> <torch/library.h>
  <algorithm> <array> <functional> <memory> <optional> <string> <tuple> <vector>)
set(ISOBIT_RECORD_HEADERS
  <fmt/format.h> <nlohmann/json.hpp>
  <algorithm> <filesystem> <functional> <map> <memory> <optional> <string> <vector>)

# isobit_together(<list of sources> NAME FILE...): compiles the files as one unit, which instantiates torch's templates once
# for all of them: two thirds of the time is saved. Files of a unit must not collide in their unnamed namespaces; the
# compiler says so, and the remedy is another unit. -DISOBIT_TOGETHER=OFF compiles each alone.
option(ISOBIT_TOGETHER "Compile groups of sources as one unit each" ON)
function(isobit_together list name)
  if(NOT ISOBIT_TOGETHER)
    return()
  endif()
  set(sources ${${list}})
  set(content "")
  foreach(file ${ARGN})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE absolute)
    if(NOT absolute IN_LIST sources)
      message(FATAL_ERROR "isobit_together: ${absolute} is no source of this folder")
    endif()
    list(REMOVE_ITEM sources ${absolute})
    # By its name under src: the same text in every clone, for the compiler cache.
    cmake_path(RELATIVE_PATH absolute BASE_DIRECTORY ${PROJECT_SOURCE_DIR}/src OUTPUT_VARIABLE relative)
    string(APPEND content "#include \"${relative}\"\n")
  endforeach()
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/together_${name}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${content}" @ONLY)
  set(${list} ${sources} ${unit} PARENT_SCOPE)
endfunction()

# isobit_precompile(<target> HEADER...)
function(isobit_precompile target)
  if(ISOBIT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fpch-preprocess)  # the compiler cache asks for it
    else()
      target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
endfunction()
