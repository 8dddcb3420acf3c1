// Parts of a record that components added (archive/record_part.h), judged when the run was executed again.
#pragma once

#include "archive/run_record.h"
#include "train/verdict.h"

namespace isobit::proof {

// UserError where the record has a part whose component is not built, or that no component of this program knows:
// before minutes are spent on executing the run.
void expect_known_parts(const archive::RunRecord& record);

// Adds to the verdict of an executed run what its parts say: the first difference, where there is none yet, and those
// that nothing was compared with. Of a range of steps, and of an interrupted verification, nothing is judged.
void judge_parts(const archive::RunRecord& record, train::Verdict& verdict);

}  // namespace isobit::proof
