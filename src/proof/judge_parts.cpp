#include "proof/judge_parts.h"

#include "archive/record_part.h"
#include "archive/user_error.h"
#include "component/component.h"

namespace isobit::proof {

void expect_known_parts(const archive::RunRecord& record) {
  for (const auto& [name, text] : record.parts()) {
    if (archive::find_record_part(name) != nullptr) continue;
    const std::string place = (record.folder() / archive::part_file(name)).string();
    component::require_built(component::Brings::record_part, name, place);
    throw archive::UserError(place, "is a part that this isobit does not know",
                             "verify the record with the isobit that made it");
  }
}

void judge_parts(const archive::RunRecord& record, train::Verdict& verdict) {
  if (verdict.interrupted || !verdict.whole) return;
  for (const auto& [name, text] : record.parts()) {
    const archive::PartJudgement judged = archive::find_record_part(name)->judge(record, text);
    if (!judged.recomputed) verdict.not_recomputed.push_back("the part " + archive::part_file(name));
    if (judged.difference.empty() || verdict.difference) continue;
    verdict.difference = train::Difference{verdict.last, archive::part_file(name), "as sealed", judged.difference};
  }
}

}  // namespace isobit::proof
