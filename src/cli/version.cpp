#include "cli/version.h"

#include "contract/platform.h"

namespace isobit::cli {

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__);
#else
  const std::string compiler = "gcc " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__);
#endif
#if defined(ISOBIT_TORCH_VERSION)
  const std::string torch = std::string(", torch ") + ISOBIT_TORCH_VERSION;
#else
  const std::string torch;
#endif
  return std::string("isobit ") + ISOBIT_VERSION + " (contract " + contract::kContractVersion + torch + ", " +
         compiler + ")";
}

}  // namespace isobit::cli
