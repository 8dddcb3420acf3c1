#include "train/batch_maker.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "archive/user_error.h"
#include "contract/philox.h"
#include "train/purposes.h"

namespace isobit::train {
namespace {

using archive::UserError;
using samples::Element;

bool is_image(const samples::Field& field) {
  return field.role == samples::Role::input ? field.shape.size() == 3 && field.element != Element::int64
                                            : field.shape.size() == 2;
}

// How many values of mean and deviation a field can have, and how many elements share one.
std::int64_t channels_of(const samples::Field& field) {
  return field.shape.size() == 3 || field.shape.size() == 1 ? field.shape[0] : 1;
}

std::vector<float> per_channel(const std::vector<double>& given, double otherwise, const samples::Field& field,
                               const char* key) {
  if (given.empty()) return {static_cast<float>(otherwise)};
  if (static_cast<std::int64_t>(given.size()) != channels_of(field)) {
    throw UserError(
        key,
        fmt::format("has {} numbers, but the field '{}' has {} channels", given.size(), field.name, channels_of(field)),
        "give one number per channel");
  }
  return {given.begin(), given.end()};
}

}  // namespace

BatchMaker::Plan BatchMaker::plan_of(const Experiment& experiment, const samples::Field& field) const {
  Plan plan{field, false, {}, {}, {}};
  const std::vector<std::string>& chosen = experiment.augment.fields;
  const bool named = std::find(chosen.begin(), chosen.end(), field.name) != chosen.end();
  const bool augmenting = crop_ > 0 || flip_;
  if (named && !is_image(field)) {
    throw UserError("augment.fields", fmt::format("the field '{}' is no image", field.name), "leave it out");
  }
  plan.augmented = augmenting && (chosen.empty() ? is_image(field) : named);
  if (field.role == samples::Role::target || field.element == Element::int64) return plan;
  plan.mean = per_channel(experiment.data.channel_mean, experiment.data.mean, field, "data.channel_mean");
  plan.deviation =
      per_channel(experiment.data.channel_deviation, experiment.data.deviation, field, "data.channel_deviation");
  const std::size_t channels = std::max(plan.mean.size(), plan.deviation.size());
  plan.mean.resize(channels, plan.mean[0]);
  plan.deviation.resize(channels, plan.deviation[0]);
  if (field.element != Element::uint8) return plan;
  plan.of_byte.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (int p = 0; p < 256; ++p)
      plan.of_byte[c][p] = (static_cast<float>(p) / 255.0f - plan.mean[c]) / plan.deviation[c];
  }
  return plan;
}

BatchMaker::BatchMaker(const Experiment& experiment, const samples::Samples& data)
    : data_(data),
      seed_(experiment.augment_seed()),
      crop_(experiment.augment.crop),
      flip_(experiment.augment.flip),
      weighted_(!experiment.data.weight.empty()) {
  for (const samples::Field& field : data.fields()) {
    if (field.name == "samples" || field.name == "weights") {
      throw UserError("data", fmt::format("a field is named '{}', which a batch's digest uses otherwise", field.name),
                      "give the field another name");
    }
    plans_.push_back(plan_of(experiment, field));
  }
  for (const std::string& name : experiment.augment.fields) {
    const auto has_name = [&](const Plan& plan) { return plan.field.name == name; };
    if (std::any_of(plans_.begin(), plans_.end(), has_name)) continue;
    throw UserError("augment.fields", fmt::format("the data has no field '{}'", name), "name a field of the data");
  }
  const Plan* image = nullptr;
  for (const Plan& plan : plans_) {
    if (!plan.augmented) continue;
    const auto sides = [](const samples::Field& f) { return std::pair(f.shape.end()[-2], f.shape.end()[-1]); };
    if (image != nullptr && sides(image->field) != sides(plan.field)) {
      throw UserError(
          "augment.fields",
          fmt::format("the fields '{}' and '{}' have images of different sizes", image->field.name, plan.field.name),
          "name the fields that are cropped and mirrored together");
    }
    image = &plan;
  }
}

at::Tensor BatchMaker::memory_for(std::size_t i, std::int64_t count) const {
  const samples::Field& field = plans_[i].field;
  std::vector<std::int64_t> shape{count};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  const bool whole =
      field.element == Element::int64 || (field.role == samples::Role::target && field.element == Element::uint8);
  return at::empty(shape, whole ? at::kLong : at::kFloat);
}

BatchMaker::Window BatchMaker::window(std::int64_t sample, std::int64_t epoch) const {
  const std::uint64_t key = contract::derive_key(seed_, static_cast<std::uint32_t>(Purpose::augmentation),
                                                 static_cast<std::uint64_t>(epoch), static_cast<std::uint32_t>(sample));
  const contract::PhiloxBlock random = contract::random_block(key, 0);
  const auto offsets = static_cast<std::uint64_t>(2 * crop_ + 1);
  return {static_cast<std::int64_t>(random.word[0] * offsets >> 32) - crop_,
          static_cast<std::int64_t>(random.word[1] * offsets >> 32) - crop_, flip_ && random.word[2] >> 31 != 0};
}

// Of each pixel of a channel, its place in the sample; -1 outside of it.
std::vector<std::int64_t> BatchMaker::sources(const Window& window, const samples::Field& field) const {
  const std::int64_t height = field.shape.end()[-2], width = field.shape.end()[-1];
  std::vector<std::int64_t> from;
  from.reserve(static_cast<std::size_t>(height * width));
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t from_y = y + window.top, from_x = (window.mirror ? width - 1 - x : x) + window.left;
      const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
      from.push_back(inside ? from_y * width + from_x : -1);
    }
  }
  return from;
}

// value(channel)(element) of each; what is outside of the image is the element 0.
template <class In, class Out, class Value>
void BatchMaker::convert(const Plan& plan, std::span<const std::int64_t> ids, std::int64_t epoch, Out* out,
                         Value value) const {
  if (ids.empty()) return;
  const std::size_t field = static_cast<std::size_t>(&plan - plans_.data());
  const std::int64_t size = plan.field.elements();
  const bool augmented = plan.augmented && epoch != 0;
  const auto channels = std::max<std::int64_t>(1, static_cast<std::int64_t>(plan.mean.size()));
  // Elements that share a channel; an image's own channels share a window too.
  const std::int64_t block = size / channels;
  // As many samples at once as stay in cache.
  const auto some = std::clamp<std::size_t>((1U << 15) / std::max<std::size_t>(1, plan.field.bytes()), 1, ids.size());
  std::vector<In> raw(some * static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i % some == 0)
      data_.read(field, ids.subspan(i, std::min(some, ids.size() - i)), reinterpret_cast<std::byte*>(raw.data()));
    const In* from = raw.data() + static_cast<std::int64_t>(i % some) * size;
    Out* to = out + static_cast<std::int64_t>(i) * size;
    if (!augmented) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const auto of_channel = value(c);
        for (std::int64_t k = c * block; k < (c + 1) * block; ++k) to[k] = of_channel(from[k]);
      }
      continue;
    }
    const std::vector<std::int64_t> places = sources(window(ids[i], epoch), plan.field);
    const auto pixels = static_cast<std::int64_t>(places.size());
    for (std::int64_t first = 0; first < size; first += pixels) {
      const auto of_channel = value(channels == 1 ? 0 : first / pixels);
      for (std::int64_t k = 0; k < pixels; ++k) {
        const std::int64_t place = places[static_cast<std::size_t>(k)];
        to[first + k] = of_channel(place < 0 ? In{} : from[first + place]);
      }
    }
  }
}

void BatchMaker::fill(std::size_t i, std::span<const std::int64_t> ids, std::int64_t epoch,
                      const at::Tensor& out) const {
  const Plan& plan = plans_[i];
  const bool target = plan.field.role == samples::Role::target;
  const auto as_it_is = [](std::int64_t) { return [](auto x) { return x; }; };
  switch (plan.field.element) {
    case Element::int64: return convert<std::int64_t>(plan, ids, epoch, out.mutable_data_ptr<std::int64_t>(), as_it_is);
    case Element::uint8:
      if (target) return convert<std::uint8_t>(plan, ids, epoch, out.mutable_data_ptr<std::int64_t>(), as_it_is);
      return convert<std::uint8_t>(plan, ids, epoch, out.mutable_data_ptr<float>(), [&](std::int64_t c) {
        return [values = plan.of_byte[static_cast<std::size_t>(c)].data()](std::uint8_t p) { return values[p]; };
      });
    case Element::float32: {
      const auto is = [](const std::vector<float>& values, float x) {
        return std::all_of(values.begin(), values.end(), [&](float v) { return v == x; });
      };
      if (target || (is(plan.mean, 0) && is(plan.deviation, 1)))
        return convert<float>(plan, ids, epoch, out.mutable_data_ptr<float>(), as_it_is);
      return convert<float>(plan, ids, epoch, out.mutable_data_ptr<float>(), [&](std::int64_t c) {
        const float mean = plan.mean[static_cast<std::size_t>(c)],
                    deviation = plan.deviation[static_cast<std::size_t>(c)];
        return [mean, deviation](float x) { return (x - mean) / deviation; };
      });
    }
  }
}

at::Tensor BatchMaker::weights(std::span<const std::int64_t> ids) const {
  if (!weighted_) return {};
  at::Tensor weights = at::empty({static_cast<std::int64_t>(ids.size())}, at::kFloat);
  float* out = weights.mutable_data_ptr<float>();
  for (const std::int64_t id : ids) *out++ = data_.weight(id);
  return weights;
}

std::vector<kernels::Fingerprint> BatchMaker::sums(const std::vector<at::Tensor>& values, const at::Tensor& weights,
                                                   std::span<const std::int64_t> ids, std::int64_t first) const {
  std::vector<kernels::Fingerprint> sums;
  const auto count = static_cast<std::int64_t>(ids.size());
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const std::int64_t n = plans_[i].field.elements();
    sums.push_back(values[i].scalar_type() == at::kLong
                       ? kernels::element_sums(values[i].const_data_ptr<std::int64_t>(), first * n, count * n)
                       : kernels::element_sums(values[i].const_data_ptr<float>(), first * n, count * n));
  }
  sums.push_back(kernels::element_sums(ids.data(), first, count));
  if (weights.defined()) sums.push_back(kernels::element_sums(weights.const_data_ptr<float>(), first, count));
  return sums;
}

kernels::Fingerprint BatchMaker::close(const std::vector<kernels::Fingerprint>& sums, std::int64_t count) const {
  struct Entry {
    std::string name;
    const char* type;
    std::vector<std::int64_t> shape;
    kernels::Fingerprint sums;
  };
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const samples::Field& field = plans_[i].field;
    std::vector<std::int64_t> shape{count};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    const bool whole =
        field.element == Element::int64 || (field.role == samples::Role::target && field.element == Element::uint8);
    entries.push_back({field.name, whole ? "int64" : "float32", shape, sums[i]});
  }
  entries.push_back({"samples", "int64", {count}, sums[plans_.size()]});
  if (weighted_) entries.push_back({"weights", "float32", {count}, sums.back()});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  kernels::ListFingerprint list;
  for (const Entry& e : entries) {
    const int rank = static_cast<int>(e.shape.size());
    list.add(e.name, e.type, e.shape.data(), rank, kernels::close_tensor(e.sums, e.type, e.shape.data(), rank));
  }
  return list.result();
}

}  // namespace isobit::train
