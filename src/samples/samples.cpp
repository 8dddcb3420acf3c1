#include "samples/samples.h"

namespace isobit::samples {

const std::vector<std::string>& Samples::classes() const {
  static const std::vector<std::string> none;
  return none;
}

}  // namespace isobit::samples
