// Walks an operator enum, so that a new enumerator is a new golden case or does not compile.
#pragma once

namespace isobit::golden {

// function(op, name) for every enumerator, in order. name_of: a switch over the enum without `default`, nullptr after
// it; its file makes a switch that misses an enumerator an error: #pragma GCC diagnostic error "-Wswitch".
template <class Op, class Function>
void for_each_enumerator(const char* (*name_of)(Op), Function function) {
  for (int i = 0; name_of(static_cast<Op>(i)) != nullptr; ++i)
    function(static_cast<Op>(i), name_of(static_cast<Op>(i)));
}

}  // namespace isobit::golden
