// Refusals: what a user sees when something cannot be computed by the contract.
//
// One line what, one line where (the module path, where one is known), one line what the operator serves (where
// remedies.h says it), one line what to do. Thrown as
// c10::Error; in a Python process that has named a class for them (set_refusal_type), as torch::PyTorchError
// (aten/pytorch_error.h), which becomes that class wherever PyTorch hands an exception to Python. Autograd
// passes both on from its threads. Thread-safe.
#pragma once

#include <exception>
#include <string>
#include <string_view>

struct _object;  // Python's PyObject

namespace isobit::aten {

// op: "aten::linalg_eigh"; reason: "is not certified", "takes float32 here, got double"; remedy: what to do; without
// one, what remedies.h advises.
[[noreturn]] void refuse(std::string_view op, std::string_view reason, std::string_view remedy = {});
// The same for what is refused before it runs, with the place where it stands; empty: not known.
[[noreturn]] void refuse_at(std::string_view place, std::string_view op, std::string_view reason,
                            std::string_view remedy);

// Whether an exception that was caught is a refusal, in either form.
[[nodiscard]] bool is_refusal(const std::exception& error);

// The Python class that refusals are raised as; null, as it stands at first: c10::Error. The class has to
// outlive every thread that may be refused.
void set_refusal_type(_object* type);

// The command that lists operators, as refusals name it: "isobit ops" unless a host has another one for its users.
// To be set before operators run under the switch.
void set_ops_command(std::string command);

}  // namespace isobit::aten
