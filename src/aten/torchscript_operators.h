// What TorchScript's interpreter executes beside the dispatcher, and what of it may run under the switch.
//
// An operator with an entry in the dispatcher passes the guard (guard.h) from a script as from anywhere. The rest, some
// thousand operators of the JIT runtime's own, does not: containers and scalars, but also the mathematics library's
// exp and sin, files, the fusers' kernels. Those run only if they are listed here; a later PyTorch's are refused.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isobit::aten {

enum class ScriptRule {
  refused,  // whatever the list does not name
  allowed,
  real,  // where no argument is complex: stock's complex products are fused on some machines
  fits,  // where a float that becomes an integer is one: the language leaves the rest undefined
};

// By full name: "aten::exp.float"; of what has no operator, such as control flow, the node's kind: "prim::If".
[[nodiscard]] ScriptRule script_rule(std::string_view full_name);

// What to do about a refused one, beside running it outside isobit.
[[nodiscard]] std::string script_remedy(std::string_view full_name);

// The list's entries; "aten::len.*" stands for every overload of that name.
[[nodiscard]] std::vector<std::string_view> script_entries();

}  // namespace isobit::aten
