#include "samples/source.h"

#include <fmt/format.h>

#include "archive/user_error.h"
#include "component/component.h"
#include "samples/data_format.h"
#include "samples/reader.h"

namespace isobit::samples {

std::shared_ptr<const Samples> open_source(const Source& source) {
  if (const DataFormat* format = find_data_format(source.format)) return format->open(source);
  component::require_built(component::Brings::data_format, source.format, "data.format");
  std::vector<std::string> formats;
  for (const DataFormat& format : data_formats()) formats.push_back(format.name);
  throw archive::UserError("data.format", fmt::format("no format '{}'", source.format),
                           name_remedy(source.format, formats, "formats"));
}

}  // namespace isobit::samples
