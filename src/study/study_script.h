// The runs of a study whose subject is a Python program under isobit.record: each a child of an interpreter, with the
// rights of whoever starts the study, since it is their own program. (What a stranger's record holds is run in a
// sandbox, by isobit verify.)
//
// The child is told by the variable ISOBIT_STUDY where its record goes, how the record's id ends and on how many
// threads it computes; isobit.record obeys. No state; thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "archive/record_types.h"
#include "process/child_process.h"
#include "study/cells.h"
#include "study/study_file.h"

namespace isobit::study {

// UserError where an interpreter has no PyTorch or no isobit: said before the first run.
void check_script(const study::Study& study);

// Without `stop` and patience. `runs`: the study's archive; `threads`: of the run.
[[nodiscard]] process::ChildRequest script_request(const study::Study& study, const study::Cell& cell,
                                                   const std::filesystem::path& runs, std::int64_t threads);

// The record that the cell's runs left: the finished one, else the newest. Nothing where there is none.
[[nodiscard]] std::optional<archive::RunSummary> script_record(const study::Study& study, const study::Cell& cell,
                                                               const std::filesystem::path& runs);

// The last line of what a program printed on stderr: of Python the exception. "" where there is none.
[[nodiscard]] std::string last_words(const std::string& err);

}  // namespace isobit::study
