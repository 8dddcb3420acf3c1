// Two texts compared line by line, as `diff -u` shows it (Myers, "An O(ND) Difference Algorithm", 1986). Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace isobit::study {

// "--- a/NAME\n+++ b/NAME\n@@ -1,4 +1,5 @@\n..."; "" where both are equal. Of texts that differ in more than some
// thousand lines the whole middle counts as replaced: still correct, no longer the shortest.
[[nodiscard]] std::string unified_diff(const std::string& name, std::string_view a, std::string_view b);

}  // namespace isobit::study
