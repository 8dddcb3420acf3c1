// What a UserError said, for tests of refusals.
#pragma once

#include <string>

#include "archive/user_error.h"

namespace isobit::slurm {

// "" where nothing was refused.
template <class Action>
std::string refused(const Action& action) {
  try {
    static_cast<void>(action());
  } catch (const archive::UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace isobit::slurm
