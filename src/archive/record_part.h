// Parts of a record that components add: files part-NAME.json beside the run's own, sealed with them.
//
// A part is one JSON object with a "format". Whoever reads a record without knowing the part still proves its bytes;
// isobit verify judges it, and ends with exit 2 where the component that can is not built. Registered before main;
// thread-safe afterwards.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isobit::archive {

class RunRecord;

struct PartJudgement {
  std::string difference;   // "": as recorded; else what differs, in words
  bool recomputed = false;  // false: the part is its author's claim, and verify says so
};

struct RecordPart {
  std::string name;
  // When a run begins: its text, or nothing where the run has no such part. "": the part is written otherwise.
  std::function<std::optional<std::string>()> collect;
  // When the run was executed again with equal bits. UserError where it cannot be judged.
  std::function<PartJudgement(const RunRecord& record, const std::string& text)> judge;
};

[[nodiscard]] const std::vector<RecordPart>& record_parts();
[[nodiscard]] const RecordPart* find_record_part(std::string_view name);

// "part-machine.json" of "machine"; the name of such a file, "" of any other.
[[nodiscard]] std::string part_file(std::string_view name);
[[nodiscard]] std::string part_name(std::string_view file);

// Throws std::invalid_argument where it is no JSON object with a "format": it would be sealed, and refused when read.
void require_part(const std::string& json);

// Adds what the components collect to the inputs of a run that begins, by file name.
void add_collected_parts(std::map<std::string, std::string>& inputs);

class RecordPartRegistration {
 public:
  explicit RecordPartRegistration(RecordPart part);
};

}  // namespace isobit::archive
