// What the C functions of extension.h and grains.h share. Private to this folder.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace isobit::extension {

// Of the calling thread: what isobit_is_refusal and the returned messages tell. Defined in extension.cpp.
void set_message(const char* text, const std::exception* error);
[[nodiscard]] const char* message();

// Exceptions do not cross a C interface: nullptr, or the message.
template <class Function>
const char* reported(Function&& function) {
  try {
    function();
    return nullptr;
  } catch (const c10::Error& error) {
    set_message(error.what_without_backtrace(), &error);
  } catch (const std::exception& error) {
    set_message(error.what(), &error);
  } catch (...) {
    set_message("unknown error", nullptr);
  }
  return message();
}

// Of Python's `tensor._cdata`.
inline at::Tensor tensor_of(void* implementation) {
  using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  return at::Tensor(Pointer::reclaim_copy(static_cast<c10::TensorImpl*>(implementation)));
}

}  // namespace isobit::extension
