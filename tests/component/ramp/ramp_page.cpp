// The section "ramp" of report and watch: the room of each run that has one, and how many have.
#include "archive/json_text.h"
#include "archive/record_part.h"
#include "report/document.h"
#include "report/page_section.h"

namespace isobit::report {
namespace {

const PageSectionRegistration ramp_section(
    {.name = "ramp",
     .script = R"js((whole, runs) => section("ramp", "Ramp", `${whole.runs} in a room`,
  table("Rooms", [{title: "run"}, {title: "room"}], runs.map(({index, data}) => [runLink(index), data.room]))))js",
     .of_run = [](const RunEntry& run, const std::filesystem::path&) -> nlohmann::ordered_json {
       const auto part = run.parts.find("ramp");
       if (part == run.parts.end()) return nullptr;
       return {{"room", archive::parse_json(part->second).at("room")}};
     },
     .of_page = [](const ReportParts& parts) -> nlohmann::ordered_json {
       std::int64_t runs = 0;
       for (const RunEntry& run : parts.runs) runs += run.parts.contains("ramp") ? 1 : 0;
       if (runs == 0) return nullptr;
       return {{"runs", runs}};
     }});

}  // namespace
}  // namespace isobit::report
