#include "aten/certified/support/device_call.h"

#include "aten/certified/support/tensors.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

std::string full_name(const StockKernel& stock) {
  std::string name(stock.op->name);
  if (!stock.op->overload.empty()) name.append(".").append(stock.op->overload);
  return name;
}

std::string argument_name(const StockKernel& stock, int place) {
  const auto& arguments = stock.handle->schema().arguments();
  const auto i = static_cast<std::size_t>(place);
  return i < arguments.size() ? arguments[i].name() : "argument " + std::to_string(place);
}

}  // namespace

void DeviceArguments::check_tensor(const at::Tensor& tensor, bool writable, bool is_out) {
  if (!tensor.defined()) return;
  const bool host_scalar = !writable && tensor.device().is_cpu() && tensor.dim() == 0;
  const bool from_host = rules_.host_tensors && !writable && tensor.device().is_cpu();
  if (tensor.device() != *device_ && !from_host && !(host_scalar && rules_.host_scalars)) {
    refuse(full_name(stock_),
           "needs all tensors on one device: " + argument_name(stock_, place_) + " is on " + tensor.device().str() +
               ", " + argument_name(stock_, device_place_) + " on " + device_->str(),
           "move them to one device with .to(\"" + device_->str() + "\")");
  }
  const bool integral = is_integral(tensor);
  const bool by_host = rules_.doubles && !host_scalar && tensor.scalar_type() == at::kDouble;
  doubles_ |= by_host;
  if (!integral && !is_float(tensor) && !host_scalar && !by_host) {
    refuse(full_name(stock_),
           std::string("is certified on a GPU for float32 only, got ") + at::toString(tensor.scalar_type()),
           "convert with .float(), or compute this part on the CPU");
  }
  if (!is_out || rules_.out_decides) floats_ |= !integral;
}

void refuse_integers(const StockKernel& stock) {
  refuse(full_name(stock), "is certified on a GPU for float32 only, got integers",
         "convert with .float(), or compute this part on the CPU");
}

void refuse_without_kernels(const StockKernel& stock) {
  refuse(full_name(stock), "has no kernels for CUDA devices in this build of isobit",
         "build isobit where nvcc is installed, or use the CPU");
}

void refuse_zero_divisor(const at::Tensor& divisor) {
  TORCH_CHECK(!divisor.eq(0).any().item<bool>(), "ZeroDivisionError");
}

}  // namespace isobit::aten
