// Components: systems of this repository that not everybody needs, built where they are asked for
// (cmake/Components.cmake).
//
// A component fills five lists of the core when the program starts, each in the room that owns it:
//
//   commands                        cli/command.h
//   data formats                    samples/data_format.h
//   options of where a run executes process/execution_place.h
//   sections of report and watch    report/page_section.h
//   parts of a record, with their check in verify   archive/record_part.h
//
// The core includes no component. What a component would bring is known by name even where it was not built, so that
// whoever needs it is told its name and how to build it. The list is fixed when the program starts; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "archive/user_error.h"

namespace isobit::component {

enum class Brings { command, data_format, execution_option, page_section, record_part };

struct Component {
  std::string name;     // as `scripts/build release NAME` takes it
  std::string summary;  // for isobit --help
  bool built = false;
  // What it brings, by the names that users, experiments and records call it: "eeg", "edf", "--machine", "eeg",
  // "machine".
  std::vector<std::string> commands, data_formats, execution_options, page_sections, record_parts;

  [[nodiscard]] const std::vector<std::string>& names(Brings what) const;
};

// All of the repository, built or not, by name.
[[nodiscard]] const std::vector<Component>& components();

// The component that brings it and was not built; nullptr where there is none.
[[nodiscard]] const Component* missing(Brings what, const std::string& name);

// "needs the component 'eeg', which is not built", with the way out.
[[nodiscard]] archive::UserError not_built(const Component& component, const std::string& place);

// Throws not_built where a component that is missing would bring it.
void require_built(Brings what, const std::string& name, const std::string& place);

// In the file that CMake writes from the components' descriptions, before main.
class ComponentRegistration {
 public:
  explicit ComponentRegistration(Component component);
};

}  // namespace isobit::component
