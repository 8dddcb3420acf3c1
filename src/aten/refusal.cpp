#include "aten/refusal.h"

#include <string>

#include <c10/util/Exception.h>

#include "contract/platform.h"

namespace isobit::aten {

void refuse(std::string_view op, std::string_view reason, std::string_view remedy) {
  if (remedy.empty()) remedy = "use a certified operator (isobit ops), or run this part outside isobit";
  std::string message(op);
  message.append(" ").append(reason).append(" under ").append(contract::kContractVersion);
  message.append("\n  do     ").append(remedy);
  TORCH_CHECK(false, message);
}

}  // namespace isobit::aten
