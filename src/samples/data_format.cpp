#include "samples/data_format.h"

#include <algorithm>
#include <utility>

#include "samples/image_file.h"
#include "samples/reader.h"

namespace isobit::samples {
namespace {

std::vector<DataFormat> core_formats() {
  std::vector<DataFormat> all = {{"idx", false, false, open_idx, {}, {}},
                                 {"images", true, false, open_images, {}, {}},
                                 {"npy", true, false, open_npy, {}, {}},
                                 {"csv", true, false, open_csv, {}, {}},
                                 {"text", false, false, open_text, {}, {}}};
  all[1].decoder = [](const Source&) { return image_libraries(); };
  return all;
}

std::vector<DataFormat>& registered_formats() {
  static std::vector<DataFormat> all = core_formats();
  return all;
}

}  // namespace

const std::vector<DataFormat>& data_formats() { return registered_formats(); }

const DataFormat* find_data_format(std::string_view name) {
  const auto& all = registered_formats();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const DataFormat& format) { return format.name == name; });
  return found == all.end() ? nullptr : &*found;
}

DataFormatRegistration::DataFormatRegistration(DataFormat format) { registered_formats().push_back(std::move(format)); }

}  // namespace isobit::samples
