# libtorch from the installed wheel, as the imported target `torch_wheel`.
#
# Torch's own CMake package asks for the CUDA toolkit as soon as the wheel is a CUDA build; isobit needs
# none of torch's CUDA headers, so headers and libraries are named here directly.
# Which wheel: -DISOBIT_TORCH_DIR=<site-packages>/torch, else the repository's .venv; where pip builds the Python
# package, that of its environment.
if(NOT ISOBIT_TORCH_DIR AND SKBUILD)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  execute_process(COMMAND ${Python3_EXECUTABLE} -E ${PROJECT_SOURCE_DIR}/python/find_torch.py
                  OUTPUT_VARIABLE ISOBIT_TORCH_DIR ERROR_VARIABLE problem RESULT_VARIABLE result
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR ${problem})
  endif()
endif()
if(NOT ISOBIT_TORCH_DIR)
  file(GLOB candidates ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  list(LENGTH candidates count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "no torch wheel in ${PROJECT_SOURCE_DIR}/.venv: run scripts/setup, or pass "
                        "-DISOBIT_TORCH_DIR=<site-packages>/torch")
  endif()
  set(ISOBIT_TORCH_DIR ${candidates})
endif()

add_library(torch_wheel INTERFACE)
target_include_directories(torch_wheel SYSTEM INTERFACE
  ${ISOBIT_TORCH_DIR}/include ${ISOBIT_TORCH_DIR}/include/torch/csrc/api/include)
target_link_directories(torch_wheel INTERFACE ${ISOBIT_TORCH_DIR}/lib)
target_link_libraries(torch_wheel INTERFACE torch torch_cpu c10)
target_link_options(torch_wheel INTERFACE -Wl,--no-as-needed)
# In the build folder alone: what is installed has no paths of this machine (INSTALL_RPATH).
set(CMAKE_BUILD_RPATH ${ISOBIT_TORCH_DIR}/lib CACHE INTERNAL "")
file(STRINGS ${ISOBIT_TORCH_DIR}/version.py torch_version REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = '([0-9.]+).*" "\\1" ISOBIT_TORCH_VERSION ${torch_version})

# src/aten/pytorch_error.h declares torch::PyTorchError a second time: the layouts must be the same. Constructors define none.
function(read_pytorch_error header result)
  file(READ ${header} text)
  if(NOT text MATCHES "struct PyTorchError : public std::exception {(.*)")
    message(FATAL_ERROR "${header} declares no torch::PyTorchError, which src/aten/pytorch_error.h stands for")
  endif()
  string(FIND "${CMAKE_MATCH_1}" "\n};" end)
  string(SUBSTRING "${CMAKE_MATCH_1}" 0 ${end} body)
  string(REGEX REPLACE "[ \n]+" " " body "${body}")
  string(REGEX REPLACE " PyTorchError\\([^)]*\\)( = default;| : msg\\(std::move\\(msg_\\)\\) {})" "" body "${body}")
  set(${result} "${body}" PARENT_SCOPE)
endfunction()
read_pytorch_error(${ISOBIT_TORCH_DIR}/include/torch/csrc/Exceptions.h theirs)
read_pytorch_error(${PROJECT_SOURCE_DIR}/src/aten/pytorch_error.h ours)
if(NOT ours STREQUAL theirs)
  message(FATAL_ERROR "torch::PyTorchError is not what src/aten/pytorch_error.h declares: change that as PyTorch "
                      "${ISOBIT_TORCH_VERSION} has it\n  PyTorch  ${theirs}\n  here     ${ours}")
endif()
