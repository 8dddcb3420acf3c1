#include "train/checkpoint_state.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "archive/sha256.h"
#include "archive/user_error.h"
#include "contract/platform.h"
#include "train/checkpoint_text.h"

namespace isobit::train {
namespace {

constexpr std::string_view kWeights = "weights.", kOptimizer = "optimizer.";

void add_views(std::string_view prefix, const std::vector<NamedTensor>& tensors,
               std::vector<archive::TensorView>& out) {
  for (const auto& [name, tensor] : tensors) {
    const char* dtype = tensor.scalar_type() == at::kLong ? "I64" : "F32";
    out.push_back({std::string(prefix) + name,
                   dtype,
                   tensor.sizes().vec(),
                   {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
}

at::Tensor tensor_of(const archive::TensorView& view) {
  const bool is_float = view.dtype == "F32";
  if (!is_float && view.dtype != "I64") {
    throw archive::UserError("checkpoint", fmt::format("tensor {} has type {}", view.name, view.dtype),
                             "resume from another checkpoint");
  }
  at::Tensor tensor = at::empty(view.shape, is_float ? at::kFloat : at::kLong);
  if (!view.data.empty()) std::memcpy(tensor.mutable_data_ptr(), view.data.data(), view.data.size());
  return tensor;
}

}  // namespace

std::vector<archive::TensorView> checkpoint_tensors(const TrainingState& state) {
  std::vector<archive::TensorView> views;
  add_views(kWeights, state.weights, views);
  add_views(kOptimizer, state.optimizer, views);
  return views;
}

std::vector<archive::TensorView> weight_tensors(const TrainingState& state) {
  std::vector<archive::TensorView> views;
  add_views("", state.weights, views);
  return views;
}

bool same_tensor(const archive::TensorView& a, const archive::TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape || a.data.size() != b.data.size()) return false;
  if (a.data.empty() || std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0) return true;
  if (a.dtype != "F32") return false;
  for (std::size_t at = 0; at < a.data.size(); at += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data.data() + at, sizeof x);
    std::memcpy(&y, b.data.data() + at, sizeof y);
    const bool both_nan = x != x && y != y;
    if (!both_nan && contract::bits_of(x) != contract::bits_of(y)) return false;
  }
  return true;
}

std::string describe(const archive::TensorView& tensor) {
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return fmt::format("{} [{}], sha256 {:.16}...", tensor.dtype, fmt::join(tensor.shape, ", "), archive::sha256(bytes));
}

std::string checkpoint_text(const TrainingState& state, const Timetable& timetable) {
  const StepPlace next = timetable.place(state.steps_done + 1);
  return format_checkpoint_text({state.steps_done, next.epoch, next.first, state.sums});
}

TrainingState read_checkpoint(const archive::Checkpoint& checkpoint) {
  const CheckpointText text = parse_checkpoint_text(checkpoint.state());
  TrainingState state;
  state.steps_done = text.steps_done;
  state.sums = text.sums;
  for (const archive::TensorView& view : checkpoint.contents().tensors()) {
    const std::string_view name = view.name;
    if (name.substr(0, kWeights.size()) == kWeights)
      state.weights.push_back({std::string(name.substr(kWeights.size())), tensor_of(view)});
    if (name.substr(0, kOptimizer.size()) == kOptimizer)
      state.optimizer.push_back({std::string(name.substr(kOptimizer.size())), tensor_of(view)});
  }
  return state;
}

void restore_from(Trainer& trainer, const archive::Checkpoint& checkpoint) {
  const TrainingState state = read_checkpoint(checkpoint);
  const std::string place = fmt::format("checkpoint of step {}", checkpoint.step());
  if (state.steps_done != checkpoint.step()) {
    throw archive::UserError(place, fmt::format("its state is of step {}", state.steps_done),
                             "another program wrote the record: use that one");
  }
  try {
    trainer.restore(state);
  } catch (const std::invalid_argument& error) {
    throw archive::UserError(place, error.what(), "another program wrote the record: use that one");
  }
}

}  // namespace isobit::train
