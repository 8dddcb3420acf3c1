#include "hostile_samples.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <tuple>

#include <ATen/ops/empty.h>

namespace isobit::test {
namespace {

using at::ScalarType;
using at::Tensor;
using c10::IValue;

// Above three times torch's grain of 32768, so that three threads have work.
const std::vector<std::int64_t> kShape = {2, 4, 112, 112};
constexpr std::int64_t kElements = 2 * 4 * 112 * 112;

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

template <typename Float, typename Bits>
Float hostile_float(std::uint64_t random) {
  using Limits = std::numeric_limits<Float>;
  const Float special[] = {Float(0),         -Float(0),          Limits::denorm_min(), -Limits::min() / 2, Limits::min(),
                           Limits::max(),    Limits::lowest(),   Limits::infinity(),   -Limits::infinity(), Limits::quiet_NaN(),
                           Float(1),         Float(-1),          Float(0.5),           Float(1.5),         Float(2.5),
                           Float(-0.5),      Float(16777217),    Float(1) / 3,         Limits::epsilon(),  Float(-3.5)};
  switch (random % 4) {
    case 0: return special[(random >> 8) % std::size(special)];
    case 1: {
      const Bits bits = static_cast<Bits>(random >> 2);
      Float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default: return static_cast<Float>(static_cast<std::int64_t>(random >> 40) - (1 << 23)) / Float(1 << 20);
  }
}

template <typename Value, typename Make>
void fill(const Tensor& tensor, std::uint64_t seed, Make make) {
  Value* values = tensor.data_ptr<Value>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) values[i] = static_cast<Value>(make(mix(seed * 1000003 + i)));
}

Tensor small_integers(at::IntArrayRef sizes, ScalarType type, std::int64_t below, std::uint64_t seed) {
  Tensor wide = at::empty(sizes, at::kLong);
  fill<std::int64_t>(wide, seed, [&](std::uint64_t random) { return random % static_cast<std::uint64_t>(below); });
  return wide.to(type);
}

bool is_float(ScalarType type) { return c10::isFloatingType(type); }

// Arguments that the general rules below get wrong.
const std::map<std::string, std::map<std::string, IValue>>& special_arguments() {
  static const std::map<std::string, std::map<std::string, IValue>> table = {
      {"aten::pixel_shuffle", {{"upscale_factor", 2}}},
      {"aten::pixel_unshuffle", {{"downscale_factor", 2}}},
      {"aten::im2col",
       {{"kernel_size", std::vector<std::int64_t>{3, 3}}, {"dilation", std::vector<std::int64_t>{1, 1}},
        {"padding", std::vector<std::int64_t>{1, 1}}, {"stride", std::vector<std::int64_t>{2, 2}}}},
      {"aten::narrow_copy", {{"start", 3}, {"length", 70}, {"dim", 2}}},
      {"aten::nonzero_static", {{"size", 90000}}},
      {"aten::roll", {{"shifts", std::vector<std::int64_t>{5}}, {"dims", std::vector<std::int64_t>{2}}}},
      {"aten::div", {{"rounding_mode", "floor"}}},
      {"aten::div_", {{"rounding_mode", "floor"}}},
      {"aten::arange", {{"start", 5}, {"end", 100005}, {"step", 1}}},
      {"aten::clamp", {{"min", 3}, {"max", 50}}},
      {"aten::clamp_", {{"min", 3}, {"max", 50}}},
      {"aten::eye", {{"n", 300}, {"m", 301}}},
      {"aten::tril_indices", {{"row", 300}, {"col", 301}}},
      {"aten::triu_indices", {{"row", 300}, {"col", 301}}},
      {"aten::unique_dim", {{"dim", 2}}},
  };
  return table;
}

class Builder {
 public:
  Builder(const std::string& full_name, ScalarType type)
      : op_(find_operator(full_name)), base_(full_name.substr(0, full_name.find('.'))), type_(type) {}

  [[nodiscard]] Values build(ScalarType out_type) const {
    Values values;
    for (const c10::Argument& argument : op_.schema().arguments()) values.push_back(one(argument, out_type));
    return values;
  }

 private:
  [[nodiscard]] bool is(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      if (base_ == std::string("aten::") + name) return true;
    }
    return false;
  }

  [[nodiscard]] IValue one(const c10::Argument& argument, ScalarType out_type) const {
    if (const auto found = special_arguments().find(base_); found != special_arguments().end()) {
      const auto value = found->second.find(argument.name());
      const bool tensor = argument.type()->str().rfind("Tensor", 0) == 0;
      if (value != found->second.end() && !tensor) return value->second;
    }
    const std::string type = argument.type()->str();
    if (type == "Tensor[]") {
      return c10::List<Tensor>({hostile_tensor(kShape, type_, 1), hostile_tensor(kShape, type_, 2)});
    }
    if (type == "Tensor?[]") {
      c10::List<std::optional<Tensor>> indices;
      indices.push_back(std::nullopt);
      indices.push_back(small_integers({9}, at::kLong, 4, 5));
      return indices;
    }
    if (type.rfind("Tensor", 0) == 0) return tensor(argument, out_type);
    if (argument.default_value()) return *argument.default_value();
    if (type == "int" || type == "SymInt") return argument.name() == "dim" ? 2 : 2;
    if (type == "int[]" || type == "SymInt[]") return int_list(argument);
    if (type == "Scalar" || type == "number") return is_float(type_) ? IValue(0.7) : IValue(3);
    if (type == "bool") return false;
    return {};
  }

  [[nodiscard]] IValue int_list(const c10::Argument& argument) const {
    if (argument.name() == "padding") {
      const int dims = base_.back() - '0' == 0 ? 1 : op_.schema().name().find("1d") != std::string::npos   ? 1
                                               : op_.schema().name().find("2d") != std::string::npos ? 2
                                                                                                     : 3;
      return std::vector<std::int64_t>(2 * dims, 1);
    }
    return std::vector<std::int64_t>{2};
  }

  [[nodiscard]] IValue tensor(const c10::Argument& argument, ScalarType out_type) const {
    const std::string& name = argument.name();
    if (argument.is_out()) return at::empty({0}, out_type);
    if (name == "mask" || name == "condition") return small_integers(kShape, at::kBool, 2, 3);
    if (name == "index" || name == "indices") return index();
    if (name == "value" || name == "atol") return hostile_tensor({}, type_, 77);
    if (name == "boundaries" || name == "sorted_sequence") {
      Tensor sorted = at::empty({50}, at::kFloat);
      for (int i = 0; i < 50; ++i) sorted.data_ptr<float>()[i] = static_cast<float>(i - 25) / 8;
      return sorted.to(type_);
    }
    if (name == "repeats" || is({"bincount"})) {
      return name == "weights" ? IValue() : IValue(small_integers({100}, at::kLong, 7, 4));
    }
    if (is({"trace"})) return hostile_tensor({112, 112}, type_, 1);
    if (is({"_local_scalar_dense"})) return hostile_tensor({}, type_, 9);
    if (is({"reflection_pad1d", "replication_pad1d"})) return hostile_tensor({8, 112, 112}, type_, 1);
    if (is({"reflection_pad3d", "replication_pad3d"})) return hostile_tensor({2, 4, 14, 8, 112}, type_, 1);
    if (name == "other" || name == "src" || name == "source" || name == "values" || name == "elements") {
      if (is({"index_copy", "index_copy_", "index_add", "index_add_"})) return hostile_tensor({2, 4, 9, 112}, type_, 2);
      if (is({"put_"})) return hostile_tensor({2000}, type_, 2);
      if (is({"_index_put_impl_"})) return hostile_tensor({2, 9, 112, 112}, type_, 2);
      // Integer division: no zero and no -1 by the least value.
      if (!is_float(type_)) return small_integers(kShape, type_ == at::kBool ? at::kBool : type_, 100, 2).add(type_ == at::kBool ? 0 : 1).to(type_);
      return hostile_tensor(kShape, type_, 2);
    }
    if (argument.type()->str() == "Tensor?" && name != "min") return {};
    return hostile_tensor(kShape, type_, 1);
  }

  [[nodiscard]] Tensor index() const {
    if (is({"take"})) return small_integers({40000}, at::kLong, kElements, 5);
    if (is({"put_"})) return small_integers({2000}, at::kLong, 500, 5);
    if (is({"index_select", "index_fill_", "index_copy", "index_copy_", "index_add", "index_add_"})) {
      return small_integers({9}, at::kLong, 112, 5);
    }
    return small_integers(kShape, at::kLong, 112, 5);
  }

  c10::OperatorHandle op_;
  std::string base_;
  ScalarType type_;
};

void absorb(std::uint64_t& digest, std::uint64_t word) { digest = mix(digest ^ word); }

template <typename Value, typename Bits>
void absorb_values(std::uint64_t& digest, const Tensor& tensor) {
  const Value* values = tensor.const_data_ptr<Value>();
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    Bits bits = static_cast<Bits>(0x7fc00000);
    if (values[i] == values[i]) std::memcpy(&bits, &values[i], sizeof(Value));
    sum += (bits + 1) * (0x9e3779b97f4a7c15ull * (2 * i + 1));
  }
  absorb(digest, sum);
}

void absorb_tensor(std::uint64_t& digest, const Tensor& given) {
  if (!given.defined()) return;
  absorb(digest, static_cast<std::uint64_t>(given.scalar_type()));
  for (const std::int64_t size : given.sizes()) absorb(digest, static_cast<std::uint64_t>(size));
  const Tensor tensor = given.contiguous();
  switch (tensor.scalar_type()) {
    case at::kFloat: return absorb_values<float, std::uint32_t>(digest, tensor);
    case at::kDouble: return absorb_values<double, std::uint64_t>(digest, tensor);
    case at::kHalf: return absorb_values<at::Half, std::uint16_t>(digest, tensor);
    case at::kBFloat16: return absorb_values<at::BFloat16, std::uint16_t>(digest, tensor);
    default: break;
  }
  const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensor.nbytes(); ++i) sum += (bytes[i] + 1) * (0x9e3779b97f4a7c15ull * (2 * i + 1));
  absorb(digest, sum);
}

void absorb_value(std::uint64_t& digest, const IValue& value) {
  if (value.isTensor()) {
    absorb_tensor(digest, value.toTensor());
  } else if (value.isDouble()) {
    const double number = value.toDouble();
    std::uint64_t bits = 0;
    if (number == number) std::memcpy(&bits, &number, sizeof bits);
    absorb(digest, bits);
  } else if (value.isInt()) {
    absorb(digest, static_cast<std::uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    absorb(digest, value.toBool());
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) absorb_value(digest, element);
  }
}

}  // namespace

static Tensor make_hostile(at::IntArrayRef sizes, ScalarType type, std::uint64_t seed) {
  if (type == at::kDouble) {
    Tensor tensor = at::empty(sizes, type);
    fill<double>(tensor, seed, hostile_float<double, std::uint64_t>);
    return tensor;
  }
  if (is_float(type)) {
    Tensor tensor = at::empty(sizes, at::kFloat);
    fill<float>(tensor, seed, hostile_float<float, std::uint32_t>);
    return tensor.to(type);
  }
  if (type == at::kBool) return small_integers(sizes, type, 2, seed);
  Tensor tensor = at::empty(sizes, at::kLong);
  fill<std::int64_t>(tensor, seed, [](std::uint64_t random) {
    return static_cast<std::int64_t>(random % 8 == 0 ? random : random >> 8 & 0x7f);
  });
  return tensor.to(type);
}

Tensor hostile_tensor(at::IntArrayRef sizes, ScalarType type, std::uint64_t seed) {
  static std::map<std::tuple<std::vector<std::int64_t>, ScalarType, std::uint64_t>, Tensor> made;
  Tensor& tensor = made[{sizes.vec(), type, seed}];
  if (!tensor.defined()) tensor = make_hostile(sizes, type, seed);
  return tensor.clone();
}

Values sample_of(const std::string& full_name, ScalarType type, ScalarType out_type) {
  return Builder(full_name, type).build(out_type);
}

std::uint64_t digest_of(const IValue& value) {
  std::uint64_t digest = 1;
  absorb_value(digest, value);
  return digest;
}

}  // namespace isobit::test
