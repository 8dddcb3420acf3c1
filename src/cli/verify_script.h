// Records of Python programs (isobit.record): verified by the Python package, which this hands over to.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace isobit::cli {

// Whether the experiment is a Python program's: it has a table [script].
[[nodiscard]] bool is_script(const std::string& experiment);

// Becomes `python3 -m isobit verify FOLDER OPTIONS...` ($ISOBIT_PYTHON, where set); does not return but by UserError
// where there is no such interpreter.
[[noreturn]] void verify_script(const std::filesystem::path& folder, const std::vector<std::string>& options);

}  // namespace isobit::cli
