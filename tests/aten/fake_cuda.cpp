#include "aten/fake_cuda.h"

#include "aten/cuda_operators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "aten/classification.h"
#include "aten/device_work.h"
#include "aten/exact_operators.h"
#include "aten/operator_list.h"
#include "kernels/cuda/emulation/emulation.h"

namespace isobit::test {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

// ---- memory

std::mutex memory_mutex;
std::size_t memory_limit = 0, memory_in_use = 0;
std::unordered_map<void*, std::size_t> blocks;

void release(void* memory) {
  const std::lock_guard lock(memory_mutex);
  const auto found = blocks.find(memory);
  if (found == blocks.end()) return;
  memory_in_use -= found->second;
  blocks.erase(found);
  std::free(memory);
}

std::string mebibytes(std::size_t bytes) { return c10::str(static_cast<double>(bytes * 100 >> 20) / 100, " MiB"); }

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t n) override {
    const c10::Device device(c10::kCUDA, 0);
    if (n == 0) return {nullptr, nullptr, &release, device};
    const std::size_t bytes = (n + 255) / 256 * 256;
    const std::lock_guard lock(memory_mutex);
    TORCH_CHECK_WITH(OutOfMemoryError, memory_limit == 0 || memory_in_use + bytes <= memory_limit,
                     "CUDA out of memory. Tried to allocate ", mebibytes(bytes), ". GPU 0 has a total capacity of ",
                     mebibytes(memory_limit), " of which ", mebibytes(memory_limit - memory_in_use), " is free.");
    void* memory = std::aligned_alloc(256, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory, 0xff, bytes);  // NaN
    memory_in_use += bytes;
    blocks[memory] = bytes;
    return {memory, memory, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};

// ---- one device, one stream, everything in order

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return {c10::kCUDA, 0}; }
  c10::Device getDevice() const override { return {c10::kCUDA, 0}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() <= 0, "CUDA error: invalid device ordinal");
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, with_index(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return getStream(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return getStream(stream.device()); }
  void* getStreamNativeHandle(const c10::Stream) const override { return nullptr; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

 private:
  static c10::Device with_index(c10::Device device) {
    return {c10::kCUDA, device.has_index() ? device.index() : c10::DeviceIndex(0)};
  }
};

std::atomic<bool> claims_cudnn = false;

// What autograd asks before it looks for a stream.
class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::kCPU); }
  bool isPinnedPtr(const void*) const override { return false; }
  // What composites ask before they hand over to cuDNN.
  bool hasCuDNN() const override { return claims_cudnn; }
  bool compiledWithCuDNN() const override { return claims_cudnn; }
  bool supportsDilatedConvolutionWithCuDNN() const override { return claims_cudnn; }
  bool supportsDepthwiseConvolutionWithCuDNN() const override { return claims_cudnn; }
  long versionCuDNN() const override { return 91000; }
  long versionRuntimeCuDNN() const override { return 91000; }
  double batchnormMinEpsilonCuDNN() const override { return 1e-5; }
  // at::manual_seed sets it; nobody draws from it.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
};

// PyTorch has made its hooks, which say that there is no CUDA, and keeps them: ours take their place in memory.
void replace_hooks() {
  static_assert(sizeof(Hooks) == sizeof(at::CUDAHooksInterface));
  new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) Hooks();
}

// ---- stock's kernels: the CPU's on the same memory

Tensor new_on_device(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  return Tensor(at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(c10::kCUDA),
                                                  DispatchKeySet(DispatchKey::CUDA), type));
}

Tensor as_host(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  Tensor host = at::for_blob(tensor.data_ptr(), tensor.sizes())
                    .strides(tensor.strides())
                    .options(at::TensorOptions().dtype(tensor.scalar_type()).device(c10::kCPU))
                    .resizeable_storage()
                    .allocator(c10::GetAllocator(c10::kCPU))
                    .make_tensor();
  host._set_neg(tensor.is_neg());  // which a copy asks for, since its memory has the other sign
  host._set_conj(tensor.is_conj());
  return host;
}

Tensor to_device(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cuda()) return tensor;
  const Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  const Tensor copy = new_on_device(dense.sizes(), dense.strides(), dense.scalar_type());
  if (dense._is_zerotensor()) {  // which has no memory
    std::memset(copy.data_ptr(), 0, copy.nbytes());
    return copy;
  }
  if (dense.nbytes() > 0) std::memcpy(copy.data_ptr(), dense.const_data_ptr(), dense.nbytes());
  return copy;
}

template <class Convert>
IValue converted(const IValue& value, Convert&& convert) {
  if (value.isTensor()) return convert(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kCPU);
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(convert(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> list;
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional<Tensor>(convert(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

// A tensor that the CPU's kernel has resized: its device twin follows.
void follow(const Tensor& device, const Tensor& host) {
  if (!device.is_cuda() || device.sizes() == host.sizes()) return;
  at::native::resize_(device, host.sizes());
  as_host(device).copy_(host);
}

std::mutex calls_mutex;
std::set<std::string> stock_calls;

bool has_floats(const IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() && !at::isIntegralType(value.toTensor().scalar_type(), true);
  if (!value.isTensorList()) return false;
  const auto list = value.toTensorVector();
  return std::any_of(list.begin(), list.end(), [](const Tensor& tensor) { return has_floats(tensor); });
}

void note_call(const c10::OperatorHandle& op, const std::vector<IValue>& arguments) {
  if (std::none_of(arguments.begin(), arguments.end(), has_floats)) return;
  const c10::OperatorName& name = op.operator_name();
  const std::lock_guard lock(calls_mutex);
  stock_calls.insert(name.overload_name.empty() ? name.name : name.name + "." + name.overload_name);
}

void call_on_host(const c10::OperatorHandle& op, DispatchKeySet, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  const std::vector<IValue> given(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  note_call(op, given);
  std::vector<IValue> host;
  for (const IValue& value : given) host.push_back(converted(value, as_host));
  stack->resize(stack->size() - count);
  stack->insert(stack->end(), host.begin(), host.end());
  {
    const aten::DeviceWork on_host(c10::kCPU);
    op.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), stack);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && given[i].isTensor()) follow(given[i].toTensor(), host[i].toTensor());
  }
  const std::size_t results = schema.returns().size();
  for (std::size_t r = 0; r < results; ++r) {
    IValue& result = (*stack)[stack->size() - results + r];
    const auto* alias = schema.returns()[r].alias_info();
    bool replaced = false;
    for (std::size_t i = 0; alias != nullptr && i < count && !replaced; ++i) {
      const auto* other = schema.arguments()[i].alias_info();
      if (other == nullptr || other->beforeSets() != alias->beforeSets()) continue;
      result = given[i];
      replaced = true;
    }
    if (!replaced && !result.isDevice()) result = converted(result, to_device);
  }
}

// Done at once here; on a GPU the host would go on.
void copy(const c10::OperatorHandle& op, DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto first = stack->end() - 3;
  TORCH_CHECK(first[0].toTensor().is_cuda() || !first[2].toBool(), "the host does not wait for a copy to it");
  call_on_host(op, keys, stack);
}

Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return Tensor(at::detail::empty_generic(sizes, c10::GetAllocator(c10::kCUDA), DispatchKeySet(DispatchKey::CUDA),
                                          type.value_or(at::kFloat), format));
}
Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return new_on_device(sizes, strides, type.value_or(at::kFloat));
}

void register_kernels(torch::Library& m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(at::native::resize_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&copy>());
}

// Every operator that has a CUDA kernel in a PyTorch with CUDA gets one here, not only the fallback: the guard and
// autograd ask whether there is one.
void register_as_cuda_would(torch::Library& m) {
  const auto only_cuda = aten::words_of(kOnlyCudaHas), only_cpu = aten::words_of(kOnlyCpuHas);
  const auto names = [](const std::vector<std::string_view>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& operator_name : dispatcher.getAllOpNames()) {
    if (operator_name.name.rfind("aten::", 0) != 0) continue;
    const std::string name = operator_name.overload_name.empty()
                                 ? operator_name.name
                                 : operator_name.name + "." + operator_name.overload_name;
    const auto op = dispatcher.findSchema(operator_name);
    if (!op || op->hasKernelForDispatchKey(DispatchKey::CUDA)) continue;
    if (names(only_cpu, name)) continue;
    if (!op->hasKernelForDispatchKey(DispatchKey::CPU) && !names(only_cuda, name)) continue;
    m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&call_on_host>());
  }
}

// The source file of PyTorch's own CUDA kernels, as its dispatcher has it: "registered at /pytorch/build/aten/..." of a
// schema says where it was built. Kernels of another file are another library's, and refused.
const char* cuda_kernels_file() {
  static const std::string file = [] {
    const std::string schema = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor").debug();
    constexpr std::string_view before = "registered at ", name = "RegisterSchema.cpp";
    const auto end = schema.find(name);
    TORCH_CHECK(end != schema.npos && schema.rfind(before, 0) == 0, "a schema says no place: ", schema);
    return schema.substr(before.size(), end - before.size()) + "RegisterCUDA_0.cpp";
  }();
  return file.c_str();
}

struct Installed {
  Installed()
      : aten(torch::Library::IMPL, "aten", DispatchKey::CUDA, cuda_kernels_file(), 1),
        others(torch::Library::IMPL, "_", DispatchKey::CUDA, cuda_kernels_file(), 1) {
    register_kernels(aten);
    register_as_cuda_would(aten);
    others.fallback(torch::CppFunction::makeFromBoxedFunction<&call_on_host>());
  }
  torch::Library aten, others;
};

}  // namespace

void limit_fake_cuda_memory(std::size_t bytes) {
  const std::lock_guard lock(memory_mutex);
  memory_limit = bytes;
}

std::set<std::string> take_stock_calls() {
  const std::lock_guard lock(calls_mutex);
  return std::exchange(stock_calls, {});
}

std::set<std::string> take_stock_arithmetic() {
  std::set<std::string> names = take_stock_calls();
  std::erase_if(names, [](const std::string& name) {
    if (aten::class_of(name, aten::DeviceKind::cuda) != aten::OperatorClass::exact) return false;
    const aten::ExactRule rule = aten::find_exact(name)->rule;
    return rule != aten::ExactRule::rounds && rule != aten::ExactRule::real;
  });
  return names;
}

std::size_t fake_cuda_memory_in_use() {
  const std::lock_guard lock(memory_mutex);
  return memory_in_use;
}

}  // namespace isobit::test

const char* isobit_take_fake_cuda_arithmetic() {
  static std::string line;
  line.clear();
  for (const std::string& name : isobit::test::take_stock_arithmetic()) line += (line.empty() ? "" : " ") + name;
  return line.c_str();
}

void isobit_fake_cuda_claims_cudnn(int claims) { isobit::test::claims_cudnn = claims != 0; }

const char* isobit_install_fake_cuda() {
  using namespace isobit::test;
  static const Installed* installed = nullptr;
  if (installed != nullptr) return nullptr;
  if (c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return "this PyTorch has CUDA devices of its own";
  static Memory memory;
  static const Guard guard;
  static const c10::impl::DeviceGuardImplRegistrar registrar(c10::kCUDA, &guard);
  c10::SetAllocator(c10::kCUDA, &memory, 0);
  isobit::kernels::set_device_backend(&isobit::kernels::emulated::backend());
  replace_hooks();
  installed = new Installed();  // as long as the process
  return nullptr;
}
