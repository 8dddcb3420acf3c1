// torch::PyTorchError: what libtorch_python asks for the Python class that an exception is to become.
//
// PyTorch declares it in torch/csrc/Exceptions.h, which needs Python's headers; this library is built without
// Python and runs without it, too. So it is declared here again, with the same name and layout: a handler in
// libtorch_python finds it by the name of its type. cmake/Torch.cmake compares the two declarations and stops
// where they differ. Never include both headers.
#pragma once

#include <exception>
#include <string>
#include <utility>

struct _object;
using PyObject = _object;

namespace torch {

struct PyTorchError : public std::exception {
  PyTorchError() = default;
  PyTorchError(std::string msg_) : msg(std::move(msg_)) {}
  virtual PyObject* python_type() = 0;
  const char* what() const noexcept override { return msg.c_str(); }
  std::string msg;
};

}  // namespace torch
