// Remedies of files that --out names. Those of archive/files.h name --runs, where most that is written lies.
//
// No state; thread-safe.
#pragma once

#include <string>
#include <utility>

#include "archive/user_error.h"

namespace isobit::archive {

// What `write` returns, or its UserError with a remedy that says --out.
template <class Write>
auto writing_out(const Write& write) try {
  return write();
} catch (const archive::UserError& error) {
  const std::string option = "--runs";
  std::string remedy = error.remedy();
  if (const auto at = remedy.find(option); at != std::string::npos) remedy.replace(at, option.size(), "--out");
  throw archive::UserError(error.place(), error.problem(), remedy);
}

}  // namespace isobit::archive
