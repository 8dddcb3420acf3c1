// Which of four classes every operator in PyTorch's dispatcher belongs to, on the CPU and on CUDA devices.
//
//   certified   computed by our kernels (aten/certified.h)
//   exact       stock kernels that move, compare or round correctly (aten/exact_operators.h)
//   composite   stock code that only calls operators of the other classes (aten/composite_operators.h)
//   refused     everything else, including what a library registers later
//
// The class is a function of the name, overload and device alone, so there is no fifth kind by construction; that
// the dispatcher treats each as its class says is what Guard does. Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isobit::aten {

enum class DeviceKind { cpu, cuda };
enum class OperatorClass { certified, exact, composite, refused };

struct OperatorInfo {
  std::string name;      // "aten::add"
  std::string overload;  // "Tensor", or empty
  OperatorClass kind = OperatorClass::refused;
  std::string reason;  // certified: the contract's section; else why
};

[[nodiscard]] std::string_view to_string(OperatorClass kind);

// By full name: "aten::add.Tensor".
[[nodiscard]] OperatorClass class_of(std::string_view full_name, DeviceKind device = DeviceKind::cpu);

[[nodiscard]] OperatorInfo classify(std::string_view name, std::string_view overload,
                                    DeviceKind device = DeviceKind::cpu);

// Every operator registered at this moment, sorted by name and overload.
[[nodiscard]] std::vector<OperatorInfo> classify_all(DeviceKind device = DeviceKind::cpu);

}  // namespace isobit::aten
