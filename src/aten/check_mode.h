// The check of a script: what would be refused is noted, and computed by stock, so that one run shows all refusals.
//
// Nothing that such a process computes is certified. So the mode begins before the switch was ever on, and for good:
// nothing leads back, and while it is on the library makes no record and no fingerprint (src/extension). Only
// `python -m isobit check` begins it: no environment variable, no argument of the switch. Children of fork inherit it.
// Thread-safe.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "aten/refusal.h"

namespace isobit::aten::check_mode {

// Called with each refusal's text, on the thread that met it. Must not throw.
using Note = void (*)(const char* message);

// std::logic_error where the switch is or was on.
void begin(Note note);
[[nodiscard]] bool on();

// Not within what stands in already: its own parts are no business of the program's.
void note(const std::exception& refusal);

// While one lives, the thread computes something in a refused operator's place.
class StandingIn {
 public:
  StandingIn();
  ~StandingIn();
  StandingIn(const StandingIn&) = delete;
  StandingIn& operator=(const StandingIn&) = delete;
};

// Calls the check; in this mode its refusal is noted, and what follows goes on.
template <class Check>
void or_note(Check&& check) {
  if (!on()) return std::forward<Check>(check)();
  try {
    std::forward<Check>(check)();
  } catch (const std::exception& error) {
    if (!is_refusal(error)) throw;
    note(error);
  }
}

}  // namespace isobit::aten::check_mode
