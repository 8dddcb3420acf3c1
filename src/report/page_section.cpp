#include "report/page_section.h"

#include <fmt/format.h>

namespace isobit::report {
namespace {

std::vector<PageSection>& registered_sections() {
  static std::vector<PageSection> all;
  return all;
}

}  // namespace

const std::vector<PageSection>& page_sections() { return registered_sections(); }

std::string section_scripts() {
  std::string text;
  for (const PageSection& section : registered_sections())
    text += fmt::format("drawSection[{}] = {};\n", nlohmann::json(section.name).dump(), section.script);
  return text;
}

PageSectionRegistration::PageSectionRegistration(PageSection section) {
  registered_sections().push_back(std::move(section));
}

}  // namespace isobit::report
