#include "samples/source.h"

#include <fmt/format.h>

#include "archive/user_error.h"
#include "samples/reader.h"

namespace isobit::samples {

std::shared_ptr<const Samples> open_source(const Source& source) {
  if (source.format == "idx") return open_idx(source);
  if (source.format == "images") return open_images(source);
  if (source.format == "npy") return open_npy(source);
  if (source.format == "csv") return open_csv(source);
  if (source.format == "text") return open_text(source);
  const std::vector<std::string> formats = {"idx", "images", "npy", "csv", "text"};
  throw archive::UserError("data.format", fmt::format("no format '{}'", source.format),
                           name_remedy(source.format, formats, "formats"));
}

}  // namespace isobit::samples
