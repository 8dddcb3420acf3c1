#include "trace/operand.h"

#include <ATen/ops/_to_copy.h>
#include <ATen/ops/resolve_conj.h>
#include <ATen/ops/resolve_neg.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "archive/sha256.h"
#include "contract/fingerprint.h"
#include "contract/philox.h"
#include "kernels/fingerprint.h"

namespace isobit::trace {
namespace {

// How a component (an element, or a part of a complex one) counts: its bits, 64 wide, and its value.
using BitsOf = std::uint64_t (*)(const std::byte* component);
using ValueOf = double (*)(const std::byte* component);

struct Type {
  at::ScalarType scalar_type;
  const char* name;    // in traces
  const char* stored;  // as safetensors spells it; of complex ones that of a part
  int size;            // bytes of a component
  int components;      // of an element
  BitsOf bits;
  ValueOf value;
};

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

std::uint64_t float64_bits(const std::byte* at) {
  const auto value = read<double>(at);
  return value != value ? 0x7FF8000000000000u : read<std::uint64_t>(at);
}
std::uint64_t float32_bits(const std::byte* at) { return contract::element_bits(read<float>(at)); }

// Of a float of `Word` whose exponent bits are `exponent` and whose fraction bits are `fraction`; NaN is `nan`.
template <class Word, unsigned exponent, unsigned fraction, unsigned nan>
std::uint64_t narrow_bits(const std::byte* at) {
  const std::uint32_t bits = read<Word>(at);
  return contract::spread_bits((bits & exponent) == exponent && (bits & fraction) != 0 ? nan : bits);
}

template <class T>
std::uint64_t integer_bits(const std::byte* at) {
  if constexpr (sizeof(T) == 8) return static_cast<std::uint64_t>(read<T>(at));
  return contract::spread_bits(static_cast<std::uint32_t>(read<T>(at)));
}

template <class T>
double value_of(const std::byte* at) {
  return static_cast<double>(read<T>(at));
}

constexpr Type kTypes[] = {
    {at::kFloat, "float32", "F32", 4, 1, float32_bits, value_of<float>},
    {at::kDouble, "float64", "F64", 8, 1, float64_bits, value_of<double>},
    {at::kHalf, "float16", "F16", 2, 1, narrow_bits<std::uint16_t, 0x7C00, 0x3FF, 0x7E00>, value_of<c10::Half>},
    {at::kBFloat16, "bfloat16", "BF16", 2, 1, narrow_bits<std::uint16_t, 0x7F80, 0x7F, 0x7FC0>,
     value_of<c10::BFloat16>},
    {at::kComplexFloat, "complex64", "F32", 4, 2, float32_bits, value_of<float>},
    {at::kComplexDouble, "complex128", "F64", 8, 2, float64_bits, value_of<double>},
    {at::kComplexHalf, "complex32", "F16", 2, 2, narrow_bits<std::uint16_t, 0x7C00, 0x3FF, 0x7E00>,
     value_of<c10::Half>},
    {at::kFloat8_e4m3fn, "float8_e4m3fn", "", 1, 1, narrow_bits<std::uint8_t, 0x7F, 0x7F, 0x7F>,
     value_of<c10::Float8_e4m3fn>},
    {at::kFloat8_e5m2, "float8_e5m2", "", 1, 1, narrow_bits<std::uint8_t, 0x7C, 0x3, 0x7E>, value_of<c10::Float8_e5m2>},
    {at::kFloat8_e4m3fnuz, "float8_e4m3fnuz", "", 1, 1, integer_bits<std::uint8_t>, value_of<c10::Float8_e4m3fnuz>},
    {at::kFloat8_e5m2fnuz, "float8_e5m2fnuz", "", 1, 1, integer_bits<std::uint8_t>, value_of<c10::Float8_e5m2fnuz>},
    {at::kLong, "int64", "I64", 8, 1, integer_bits<std::int64_t>, value_of<std::int64_t>},
    {at::kInt, "int32", "I32", 4, 1, integer_bits<std::int32_t>, value_of<std::int32_t>},
    {at::kShort, "int16", "I16", 2, 1, integer_bits<std::int16_t>, value_of<std::int16_t>},
    {at::kChar, "int8", "I8", 1, 1, integer_bits<std::int8_t>, value_of<std::int8_t>},
    {at::kByte, "uint8", "U8", 1, 1, integer_bits<std::uint8_t>, value_of<std::uint8_t>},
    {at::kUInt16, "uint16", "U16", 2, 1, integer_bits<std::uint16_t>, value_of<std::uint16_t>},
    {at::kUInt32, "uint32", "U32", 4, 1, integer_bits<std::uint32_t>, value_of<std::uint32_t>},
    {at::kUInt64, "uint64", "U64", 8, 1, integer_bits<std::uint64_t>, value_of<std::uint64_t>},
    {at::kBool, "bool", "BOOL", 1, 1, integer_bits<std::uint8_t>, value_of<std::uint8_t>},
};

const Type* type_of(const at::Tensor& tensor) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const Type& type) { return type.scalar_type == tensor.scalar_type(); });
  return found == std::end(kTypes) ? nullptr : found;
}

// Elements in logical order without gaps; `why` where there are none to read.
struct Dense {
  const Type* type = nullptr;
  const std::byte* data = nullptr;
  std::int64_t elements = 0;
  const char* why = nullptr;
  at::Tensor holder;              // of data that is another tensor's
  std::vector<std::byte> copied;  // of strided data

  [[nodiscard]] std::int64_t components() const { return elements * type->components; }
};

template <class Word>
void gather(const at::Tensor& tensor, std::byte* out) {
  const auto* base = static_cast<const Word*>(tensor.const_data_ptr());
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  const std::int64_t rank = tensor.dim(), inner = sizes[rank - 1], step = strides[rank - 1];
  std::vector<std::int64_t> index(static_cast<std::size_t>(rank), 0);
  std::int64_t offset = 0;
  while (true) {
    for (std::int64_t i = 0; i < inner; ++i, out += sizeof(Word)) {
      std::memcpy(out, base + offset + i * step, sizeof(Word));
    }
    std::int64_t d = rank - 2;
    for (; d >= 0; --d) {
      auto& at_d = index[static_cast<std::size_t>(d)];
      offset += strides[d];
      if (++at_d < sizes[d]) break;
      offset -= strides[d] * at_d;
      at_d = 0;
    }
    if (d < 0) return;
  }
}

struct Word16 {
  std::uint64_t low, high;
};

void gather_elements(const at::Tensor& tensor, std::byte* out) {
  switch (tensor.element_size()) {
    case 1: return gather<std::uint8_t>(tensor, out);
    case 2: return gather<std::uint16_t>(tensor, out);
    case 4: return gather<std::uint32_t>(tensor, out);
    case 8: return gather<std::uint64_t>(tensor, out);
    default: return gather<Word16>(tensor, out);
  }
}

const char* why_not(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) return "no strided tensor";
  if (tensor.is_nested()) return "nested";
  if (tensor.is_meta()) return "meta";
  if (tensor.is_quantized()) return "quantized";
  if (!tensor.has_storage()) return "without storage";
  if (type_of(tensor) == nullptr) return "a type without fingerprint";
  return nullptr;
}

Dense dense_of(const at::Tensor& given) {
  Dense dense;
  dense.why = why_not(given);
  if (dense.why != nullptr) return dense;
  dense.type = type_of(given);
  dense.elements = given.numel();
  dense.holder = given;
  if (!given.is_cpu() || given.is_conj() || given.is_neg()) {  // rare: by PyTorch's own operators
    const at::NoGradGuard no_grad;
    dense.holder = at::resolve_neg(at::resolve_conj(given.detach()));
    if (!given.is_cpu()) dense.holder = dense.holder.to(at::kCPU);
  }
  const at::Tensor& tensor = dense.holder;
  if (dense.elements == 0) return dense;
  const void* data = tensor.const_data_ptr();
  if (data == nullptr) {
    dense.why = "without memory";
  } else if (tensor.is_contiguous()) {
    dense.data = static_cast<const std::byte*>(data);
  } else {
    dense.copied.resize(static_cast<std::size_t>(dense.elements) * tensor.element_size());
    gather_elements(tensor, dense.copied.data());
    dense.data = dense.copied.data();
  }
  return dense;
}

kernels::Fingerprint sums_of(const Dense& dense) {
  const std::int64_t n = dense.components();
  switch (dense.type->scalar_type) {
    case at::kFloat:
    case at::kComplexFloat: return kernels::element_sums(reinterpret_cast<const float*>(dense.data), 0, n);
    case at::kLong: return kernels::element_sums(reinterpret_cast<const std::int64_t*>(dense.data), 0, n);
    case at::kByte:
    case at::kBool: return kernels::element_sums(reinterpret_cast<const std::uint8_t*>(dense.data), 0, n);
    default: break;
  }
  kernels::Fingerprint sums;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto mixed =
        contract::mix(static_cast<std::uint64_t>(i), dense.type->bits(dense.data + i * dense.type->size));
    sums = kernels::merge(sums, {mixed.high, mixed.low});
  }
  return sums;
}

std::vector<Sample> samples_of(const Dense& dense, const std::string& key, std::int64_t samples) {
  std::vector<Sample> taken;
  const Type& type = *dense.type;
  for (const std::int64_t position : sample_positions(key, dense.elements, samples)) {
    Sample sample{position, ""};
    for (int part = 0; part < type.components; ++part) {
      std::uint64_t bits = type.bits(dense.data + (position * type.components + part) * type.size);
      if (type.size < 8) bits &= (std::uint64_t{1} << 8 * type.size) - 1;
      sample.bits += fmt::format("{:0{}x}", bits, 2 * type.size);
    }
    taken.push_back(std::move(sample));
  }
  return taken;
}

// Sums in binary64 in logical order: the same on every machine.
Statistics statistics_of(const Dense& dense) {
  Statistics statistics;
  double sum = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < dense.components(); ++i) {
    const double value = dense.type->value(dense.data + i * dense.type->size);
    if (std::isnan(value)) {
      ++statistics.nan;
    } else if (std::isinf(value)) {
      ++statistics.infinite;
    } else {
      statistics.min = finite == 0 ? value : std::min(*statistics.min, value);
      statistics.max = finite == 0 ? value : std::max(*statistics.max, value);
      sum += value;
      ++finite;
    }
  }
  if (finite > 0 && std::isfinite(sum)) statistics.mean = sum / static_cast<double>(finite);
  return statistics;
}

}  // namespace

std::vector<std::int64_t> sample_positions(const std::string& key, std::int64_t count, std::int64_t samples) {
  std::set<std::int64_t> positions;
  if (count <= samples) {
    for (std::int64_t i = 0; i < count; ++i) positions.insert(i);
    return {positions.begin(), positions.end()};
  }
  const std::uint64_t philox_key = std::stoull(archive::sha256(key).substr(0, 16), nullptr, 16);
  for (std::uint64_t block = 0; static_cast<std::int64_t>(positions.size()) < samples; ++block) {
    const auto word = [&](std::uint64_t e) { return std::uint64_t{contract::random_word(philox_key, e)}; };
    const std::uint64_t drawn = word(2 * block) << 32 | word(2 * block + 1);
    const auto scaled = static_cast<unsigned __int128>(drawn) * static_cast<std::uint64_t>(count);
    positions.insert(static_cast<std::int64_t>(scaled >> 64));
  }
  return {positions.begin(), positions.end()};
}

TensorTrace describe_without(const at::Tensor& tensor, const char* why) {
  TensorTrace trace;
  const Type* type = type_of(tensor);
  trace.dtype = type != nullptr ? type->name : toString(tensor.scalar_type());
  if (!tensor.is_nested()) trace.shape = tensor.sizes().vec();
  trace.without = why;
  return trace;
}

TensorTrace describe_operand(const at::Tensor& tensor, const std::string& key, const OperandOptions& options) {
  const Dense dense = dense_of(tensor);
  if (dense.why != nullptr) return describe_without(tensor, dense.why);
  TensorTrace trace = describe_without(tensor, "");
  trace.fingerprint = kernels::to_hex(
      kernels::close_tensor(sums_of(dense), dense.type->name, tensor.sizes().data(), static_cast<int>(tensor.dim())));
  if (options.samples > 0) trace.samples = samples_of(dense, key, options.samples);
  if (options.statistics) trace.statistics = statistics_of(dense);
  return trace;
}

bool keep_operand(const at::Tensor& tensor, KeptValues& values) {
  const Dense dense = dense_of(tensor);
  if (dense.why != nullptr || *dense.type->stored == '\0') return false;
  values.dtype = dense.type->stored;
  values.shape = tensor.sizes().vec();
  if (dense.type->components == 2) values.shape.push_back(2);
  values.bytes.assign(dense.data, dense.data + dense.components() * dense.type->size);
  return true;
}

}  // namespace isobit::trace
