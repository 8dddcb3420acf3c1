# Components (src/component/component.h): one line adds one.
#
#   isobit_component(<list> <name> <folder>)   <folder>/component.cmake says what it brings, <folder>/CMakeLists.txt builds it
#
# A component's folder:
#   component.cmake   set(summary "..."), set(commands ...), set(data_formats ...), set(execution_options ...),
#                     set(page_sections ...), set(record_parts ...): read whether it is built or not
#   CMakeLists.txt    makes the object libraries isobit_<name>_records (no torch: also in the executable itself) and
#                     isobit_<name>_torch (with torch), whichever it has; read where it is built
#   python/           the package isobit.<name>, in wheels that hold the component
# Its tests are in tests/<name>, its guide in docs/guide, its example in examples.
set(ISOBIT_COMPONENTS "" CACHE STRING "Components to build: names with ; between them, or all (scripts/build release NAME adds one)")

# <list>_TEXT: the registrations in C++; <list>_BUILT: names of those to build; <list>_FOLDER_<name>.
function(isobit_component list name folder)
  set(brings commands data_formats execution_options page_sections record_parts)
  foreach(variable summary ${brings})
    unset(${variable})
  endforeach()
  include(${folder}/component.cmake)
  if(NOT summary)
    message(FATAL_ERROR "${folder}/component.cmake sets no summary")
  endif()
  set(built false)
  if(name IN_LIST ${list}_WANTED OR "${${list}_WANTED}" STREQUAL "all")
    set(built true)
    set(${list}_BUILT ${${list}_BUILT} ${name} PARENT_SCOPE)
  endif()
  set(text "const ComponentRegistration ${name}_component({.name = \"${name}\",\n    .summary = \"${summary}\",\n    .built = ${built}")
  foreach(variable ${brings})
    list(JOIN ${variable} "\", \"" words)
    if(words)
      string(APPEND text ",\n    .${variable} = {\"${words}\"}")
    endif()
  endforeach()
  set(${list}_TEXT "${${list}_TEXT}${text}});\n" PARENT_SCOPE)
  set(${list}_NAMES ${${list}_NAMES} ${name} PARENT_SCOPE)
  set(${list}_FOLDER_${name} ${folder} PARENT_SCOPE)
endfunction()

# An object library that registers the list's components, for programs to link.
function(isobit_component_list target list)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp CONTENT
"// Written by CMake from the components' descriptions.
#include \"component/component.h\"

namespace isobit::component {
namespace {

${${list}_TEXT}
}  // namespace
}  // namespace isobit::component
" @ONLY)
  add_library(${target} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
  target_link_libraries(${target} PUBLIC isobit_component)
endfunction()

# isobit_add_components(<program> <list's target> <list> [TORCH]): the list and the objects of the components that it has
# built, those without torch, and with TORCH all. Objects, so that no registration is lost in linking.
function(isobit_add_components program target list)
  if(NOT TARGET ${program})
    return()
  endif()
  target_link_libraries(${program} PRIVATE ${target})
  foreach(name ${${list}_BUILT})
    foreach(kind records torch)
      if(TARGET isobit_${name}_${kind} AND (kind STREQUAL "records" OR "TORCH" IN_LIST ARGN))
        target_link_libraries(${program} PRIVATE isobit_${name}_${kind})
      endif()
    endforeach()
  endforeach()
endfunction()

function(isobit_check_components list)
  foreach(name ${${list}_WANTED})
    if(NOT name STREQUAL "all" AND NOT name IN_LIST ${list}_NAMES)
      message(FATAL_ERROR "ISOBIT_COMPONENTS names '${name}', and the components are: ${${list}_NAMES}")
    endif()
  endforeach()
endfunction()
