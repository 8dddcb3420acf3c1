// What stands behind each field of a record when isobit verify says identical: the table of docs/formats/run.md, "What
// identical means". Immutable; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

enum class Standing {
  recomputed,  // compared bit by bit with what executing the run again gave
  bound,       // executed as it stands, or tied by digest or rule to what was recomputed or to the data
  claimed,     // nobody but the one who recorded the run stands behind it
};
[[nodiscard]] const char* to_string(Standing standing);

// `file` as in the folder, "environment*.json" and "checkpoints/*" being patterns. `key` is the way from the top with
// dots;
// "*" is any name, "[]" any element; "" is the whole file.
struct Field {
  std::string_view file, key;
  Standing standing;
  std::string_view because;
};

[[nodiscard]] std::span<const Field> record_fields();

// "script.dirty", ...: the claimed keys that an experiment.toml, as isobit writes it, has.
[[nodiscard]] std::vector<std::string> claimed_settings(std::string_view experiment);

// The field that a key of a file is ("inputs.data.json" is "inputs.*"); nullptr for one that is not in the table.
[[nodiscard]] const Field* find_field(std::string_view file, const std::vector<std::string>& key);

}  // namespace isobit::archive
