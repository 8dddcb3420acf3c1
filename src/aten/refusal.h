// Refusals: what a user sees when something can not be computed by the contract.
//
// One line what, one line where (the module path, where one is known), one line what to do. Thrown as
// c10::Error, which autograd passes on and Python shows as RuntimeError. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace isobit::aten {

// op: "aten::erfinv"; reason: "is not certified", "takes float32 here, got double"; remedy: what to do.
[[noreturn]] void refuse(std::string_view op, std::string_view reason, std::string_view remedy = {});

// The command that lists operators, as refusals name it: "isobit ops" unless a host has another one for its users.
// To be set before operators run under the switch.
void set_ops_command(std::string command);

}  // namespace isobit::aten
