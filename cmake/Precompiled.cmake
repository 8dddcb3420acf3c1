# Precompiled headers: what nearly every unit of a target includes, parsed once.
#
# One unit on ATen's headers takes 7 s, 5 of them for the headers (scripts/build --profile). Only <headers> by their
# system name: a path of this checkout in the list would keep the compiler cache from hitting in another clone.
option(ISOBIT_PRECOMPILE "Precompile the headers of torch, JSON and the command line" ON)

set(ISOBIT_ATEN_HEADERS
  <ATen/core/Tensor.h> <ATen/ops/empty.h> <torch/library.h>
  <algorithm> <array> <functional> <memory> <optional> <string> <tuple> <vector>)
# Both headers of fmt: targets with torch find the wheel's fmt first, and one header of each version would not fit together.
set(ISOBIT_RECORD_HEADERS
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>
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
  get_property(taken DIRECTORY PROPERTY ISOBIT_TOGETHER_UNITS)
  if(unit IN_LIST taken)
    message(FATAL_ERROR "isobit_together: this folder has a unit '${name}' already")
  endif()
  set_property(DIRECTORY APPEND PROPERTY ISOBIT_TOGETHER_UNITS ${unit})
  file(CONFIGURE OUTPUT ${unit} CONTENT "${content}" @ONLY)
  set(${list} ${sources} ${unit} PARENT_SCOPE)
endfunction()

# isobit_precompile(<target> HEADER...): a list of its own.
function(isobit_precompile target)
  if(ISOBIT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    isobit_precompiled_options(${target})
  endif()
endfunction()

# isobit_headers(<kind> LIBRARY...): ISOBIT_<KIND>_HEADERS, precompiled once for all targets that share them.
# isobit_share_headers(<target> <kind>): the target is compiled with them. g++ takes them at -O1 and -O2 alike, but passes over
# them at -O0, or where the target defines a macro that they look at, as -pthread does; CMake's -Winvalid-pch then warns.
function(isobit_headers kind)
  if(ISOBIT_PRECOMPILE)
    string(TOUPPER ${kind} upper)
    file(GENERATE OUTPUT headers_${kind}.cpp CONTENT "")
    add_library(isobit_headers_${kind} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/headers_${kind}.cpp)
    target_link_libraries(isobit_headers_${kind} PRIVATE ${ARGN})
    isobit_precompile(isobit_headers_${kind} ${ISOBIT_${upper}_HEADERS})
  endif()
endfunction()
function(isobit_share_headers target kind)
  if(ISOBIT_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} REUSE_FROM isobit_headers_${kind})
    isobit_precompiled_options(${target})
  elseif(ISOBIT_PRECOMPILE)  # clang asks for the same definitions, which differ by target
    string(TOUPPER ${kind} upper)
    isobit_precompile(${target} ${ISOBIT_${upper}_HEADERS})
  endif()
endfunction()

function(isobit_precompiled_options target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # the compiler cache asks for it
  else()
    target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  endif()
endfunction()
