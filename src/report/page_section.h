// Sections that components add to the pages of isobit report and isobit watch. Registered before main; thread-safe
// afterwards.
//
// A section's data is JSON: of each run, in the document under runs[i].sections[NAME], and of the page as a whole,
// under sections[NAME]. Its script is one JavaScript expression, a function (whole, runs) that returns a DOM element or
// null: `whole` is the page's data or null; `runs` is [{index, run, data}] of the runs that have some. It may use the
// helpers of src/report/page (h, section, table, figures, runLink, ...); every text goes through them, never through
// innerHTML.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace isobit::report {

struct RunEntry;
struct ReportParts;

struct PageSection {
  std::string name;
  std::string script;
  // null: nothing to show. Called for each run of the page, on several threads; `folder` is the record, sealed or not.
  std::function<nlohmann::ordered_json(const RunEntry& run, const std::filesystem::path& folder)> of_run;
  std::function<nlohmann::ordered_json(const ReportParts& parts)> of_page;
};

[[nodiscard]] const std::vector<PageSection>& page_sections();

// The sections' scripts, as part of the page's own: sets `drawSection[NAME]` for each (page/80-components.js).
[[nodiscard]] std::string section_scripts();

class PageSectionRegistration {
 public:
  explicit PageSectionRegistration(PageSection section);
};

}  // namespace isobit::report
