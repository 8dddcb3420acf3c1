#include "samples/reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "archive/printable.h"
#include "archive/suggest.h"
#include "archive/user_error.h"

namespace isobit::samples {

using archive::UserError;

std::string path_of(const Source& source, const std::string& name) {
  return (std::filesystem::path(source.folder) / name).string();
}

void refuse_columns(const Source& source) {
  for (const auto& [key, value] : {std::pair{"data.group", &source.group}, std::pair{"data.weight", &source.weight},
                                   std::pair{"data.count", &source.count}}) {
    if (value->empty()) continue;
    throw UserError(key, fmt::format("format '{}' has no columns", source.format),
                    "leave it out, or use format csv, npy, or images with a table");
  }
}

void refuse_fields(const Source& source) {
  for (const auto& [key, value] :
       {std::pair{"data.inputs", &source.inputs}, std::pair{"data.targets", &source.targets}}) {
    if (value->empty()) continue;
    throw UserError(key, fmt::format("format '{}' has its fields by itself", source.format), "leave it out");
  }
}

void check_ids(std::span<const std::int64_t> ids, std::int64_t count) {
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= count) throw std::out_of_range(fmt::format("sample {} of {}", id, count));
  }
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == most) return text + fmt::format(" and {} more", names.size() - most);
    text += (i == 0 ? "" : ", ") + archive::printable(names[i]);
  }
  return text;
}

std::string name_remedy(const std::string& name, const std::vector<std::string>& names, const std::string& what) {
  const std::string near = names.size() <= 10'000 ? archive::nearest(name, names) : "";
  return near.empty() ? fmt::format("its {}: {}", what, listed(names))
                      : fmt::format("did you mean '{}'?", archive::printable(near));
}

}  // namespace isobit::samples
