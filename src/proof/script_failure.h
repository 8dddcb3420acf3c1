// What a program that was executed again printed, shown as its own, and why it failed, in words. No state.
#pragma once

#include <filesystem>
#include <string>

#include "archive/user_error.h"

namespace isobit::proof {

// The last lines on stderr, each marked "script| ", with nothing that a terminal obeys.
void show_script_output(const std::string& text);

// Where the program's files came from.
struct ScriptPlace {
  std::string name;              // of the program, in messages
  std::filesystem::path beside;  // the folder next to whose files it ran; "" where there is none
  bool sandboxed = true;
};

// The error for a program that failed in the way that `problem` says: where it missed a file, that file and how to give
// it. The file's name is what the program printed.
[[nodiscard]] archive::UserError script_failure(const ScriptPlace& place, const std::string& problem,
                                                const std::string& printed);

}  // namespace isobit::proof
