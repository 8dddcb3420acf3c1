#include "cli/tune_search.h"

namespace isobit::cli {
namespace {

const bool registered = [] {
  tune_search() = bench::tune;
  return true;
}();

}  // namespace
}  // namespace isobit::cli
