// The formats of training data: the core's five, and those that components add before main. Thread-safe afterwards.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "samples/source.h"

namespace isobit::samples {

struct DataFormat {
  std::string name;             // data.format
  bool takes_names = false;     // data.inputs, data.targets and data.weight say something
  bool takes_settings = false;  // data.settings does: a component's own "key=value"
  std::function<std::shared_ptr<const Samples>(const Source&)> open;
  // What identifies the source: the files that are read, as paths from data.path. "": source.file alone.
  std::function<std::vector<std::string>(const Source&)> files;
  // Libraries that decode, with their versions, where that may matter; "": none.
  std::function<std::string(const Source&)> decoder;
};

[[nodiscard]] const std::vector<DataFormat>& data_formats();
[[nodiscard]] const DataFormat* find_data_format(std::string_view name);

class DataFormatRegistration {
 public:
  explicit DataFormatRegistration(DataFormat format);
};

}  // namespace isobit::samples
