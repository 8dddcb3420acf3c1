#include "component/component.h"

#include <algorithm>

namespace isobit::component {
namespace {

std::vector<Component>& registered() {
  static std::vector<Component> all;
  return all;
}

}  // namespace

const std::vector<std::string>& Component::names(Brings what) const {
  switch (what) {
    case Brings::command: return commands;
    case Brings::data_format: return data_formats;
    case Brings::execution_option: return execution_options;
    case Brings::page_section: return page_sections;
    case Brings::record_part: break;
  }
  return record_parts;
}

const std::vector<Component>& components() { return registered(); }

const Component* missing(Brings what, const std::string& name) {
  for (const Component& one : registered()) {
    const std::vector<std::string>& names = one.names(what);
    if (!one.built && std::find(names.begin(), names.end(), name) != names.end()) return &one;
  }
  return nullptr;
}

archive::UserError not_built(const Component& component, const std::string& place) {
  return {place, "needs the component '" + component.name + "', which this isobit was built without",
          "in a clone: scripts/build release " + component.name};
}

void require_built(Brings what, const std::string& name, const std::string& place) {
  if (const Component* component = missing(what, name)) throw not_built(*component, place);
}

ComponentRegistration::ComponentRegistration(Component component) {
  std::vector<Component>& all = registered();
  const auto later =
      std::upper_bound(all.begin(), all.end(), component.name,
                       [](const std::string& name, const Component& other) { return name < other.name; });
  all.insert(later, std::move(component));
}

}  // namespace isobit::component
