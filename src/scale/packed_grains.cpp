// pack() and unpack() of exact_reduce.h: numbers of 8 bytes, texts and rows of numbers with their length first.
#include <ATen/ops/empty.h>

#include <bit>
#include <cstring>
#include <limits>

#include "archive/user_error.h"
#include "scale/exact_reduce.h"

namespace isobit::scale {
namespace {

using trace::NamedTensor;
constexpr std::int64_t kNothing = -1;

class Writer {
 public:
  void number(std::int64_t value) { bytes(&value, sizeof value); }
  void text(const std::string& value) {
    number(static_cast<std::int64_t>(value.size()));
    bytes(value.data(), value.size());
  }
  void row(const at::Tensor& tensor) {
    if (!tensor.defined()) return number(kNothing);
    const at::Tensor host = tensor.detach().cpu().contiguous();
    number(static_cast<std::int64_t>(host.scalar_type()));
    number(host.numel());
    bytes(host.const_data_ptr(), host.nbytes());
  }
  Bytes take() { return std::move(bytes_); }

 private:
  void bytes(const void* from, std::size_t count) {
    const auto* first = static_cast<const std::uint8_t*>(from);
    bytes_.insert(bytes_.end(), first, first + count);
  }
  Bytes bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::int64_t number() {
    std::int64_t value = 0;
    take(&value, sizeof value);
    return value;
  }
  // Of things that take at least so many bytes each.
  std::size_t count(std::size_t bytes_each) {
    const std::int64_t value = number();
    if (value < 0 || static_cast<std::size_t>(value) > bytes_.size() / bytes_each) refuse();
    return static_cast<std::size_t>(value);
  }
  std::string text() {
    std::string value(count(1), '\0');
    take(value.data(), value.size());
    return value;
  }
  at::Tensor row() {
    const std::int64_t type = number();
    if (type == kNothing) return {};
    if (type != static_cast<std::int64_t>(at::kFloat) && type != static_cast<std::int64_t>(at::kDouble)) refuse();
    const auto scalar_type = static_cast<at::ScalarType>(type);
    const std::size_t n = count(c10::elementSize(scalar_type));
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(n)}, at::TensorOptions().dtype(scalar_type));
    take(tensor.mutable_data_ptr(), tensor.nbytes());
    return tensor;
  }
  void expect_end() const {
    if (!bytes_.empty()) refuse();
  }
  [[noreturn]] static void refuse() { throw WireError("grains' results that isobit does not send"); }

 private:
  void take(void* to, std::size_t count) {
    if (count > bytes_.size()) refuse();
    std::memcpy(to, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
  }
  std::span<const std::uint8_t> bytes_;
};

std::int64_t place_of(const at::Tensor& running, const std::vector<NamedTensor>& buffers) {
  if (!running.defined()) return kNothing;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].tensor.is_same(running)) return static_cast<std::int64_t>(i);
  }
  throw archive::UserError("model", "batch norm's running statistics are no buffer of the network",
                           "register them as buffers, or set grain = 0");
}

at::Tensor at_place(std::int64_t place, const std::vector<NamedTensor>& buffers) {
  if (place == kNothing) return {};
  if (place < 0 || static_cast<std::size_t>(place) >= buffers.size()) Reader::refuse();
  return buffers[static_cast<std::size_t>(place)].tensor;
}

void write_grain(Writer& to, std::int64_t index, const grains::GrainSums::OfGrain& grain,
                 const std::vector<NamedTensor>& buffers) {
  to.number(index);
  to.number(std::bit_cast<std::int32_t>(grain.loss));
  to.number(grain.counts.correct);
  to.number(grain.counts.targets);
  to.number(std::bit_cast<std::int64_t>(grain.counts.error));
  to.number(static_cast<std::int64_t>(grain.statistics.size()));
  for (const aten::RunningUpdate& update : grain.statistics) {
    to.number(place_of(update.running_mean, buffers));
    to.number(place_of(update.running_variance, buffers));
    to.number(std::bit_cast<std::int64_t>(update.momentum));
    to.row(update.fresh_mean);
    to.row(update.fresh_variance);
  }
}

grains::GrainSums::OfGrain read_grain(Reader& from, const std::vector<NamedTensor>& buffers) {
  grains::GrainSums::OfGrain grain;
  grain.loss = std::bit_cast<float>(static_cast<std::int32_t>(from.number()));
  grain.counts.correct = from.number();
  grain.counts.targets = from.number();
  grain.counts.error = std::bit_cast<double>(from.number());
  grain.statistics.resize(from.count(40));
  for (aten::RunningUpdate& update : grain.statistics) {
    update.running_mean = at_place(from.number(), buffers);
    update.running_variance = at_place(from.number(), buffers);
    update.momentum = std::bit_cast<double>(from.number());
    update.fresh_mean = from.row();
    update.fresh_variance = from.row();
    for (const auto& [running, fresh] : {std::pair(update.running_mean, update.fresh_mean),
                                         std::pair(update.running_variance, update.fresh_variance)}) {
      if (running.defined() != fresh.defined() || (fresh.defined() && fresh.numel() != running.numel()))
        Reader::refuse();
    }
    if (update.fresh_mean.defined()) update.fresh_mean = update.fresh_mean.to(update.running_mean.device());
    if (update.fresh_variance.defined())
      update.fresh_variance = update.fresh_variance.to(update.running_variance.device());
  }
  return grain;
}

}  // namespace

Bytes pack(const grains::GrainSums::Rest& rest, const std::vector<NamedTensor>& buffers) {
  Writer to;
  to.number(static_cast<std::int64_t>(rest.by_grain.size()));
  for (const auto& [index, grain] : rest.by_grain) write_grain(to, index, grain, buffers);
  to.number(static_cast<std::int64_t>(rest.increments.size()));
  for (const auto& [name, count] : rest.increments) to.text(name), to.number(count);
  to.number(static_cast<std::int64_t>(rest.digest.size()));
  for (const kernels::Fingerprint& field : rest.digest) {
    to.number(static_cast<std::int64_t>(field.high));
    to.number(static_cast<std::int64_t>(field.low));
  }
  return to.take();
}

grains::GrainSums::Rest unpack(std::span<const std::uint8_t> bytes, const std::vector<NamedTensor>& buffers) {
  Reader from(bytes);
  grains::GrainSums::Rest rest;
  for (std::size_t n = from.count(48); n > 0; --n) {
    const std::int64_t index = from.number();
    if (!rest.by_grain.emplace(index, read_grain(from, buffers)).second) Reader::refuse();
  }
  for (std::size_t n = from.count(16); n > 0; --n) {
    const std::string name = from.text();
    rest.increments[name] = from.number();
  }
  rest.digest.resize(from.count(16));
  for (kernels::Fingerprint& field : rest.digest) {
    field.high = static_cast<std::uint64_t>(from.number());
    field.low = static_cast<std::uint64_t>(from.number());
  }
  from.expect_end();
  return rest;
}

}  // namespace isobit::scale
