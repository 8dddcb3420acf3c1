#include "cli/bench_bound.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace isobit::cli {
namespace {

thread_local StepCost* watched = nullptr;
thread_local int depth = 0;

// Of the outermost operator under way: inputs can be read when it begins only, outputs when it ends.
struct Inputs {
  std::vector<std::int64_t> x, w, stride, pad, dilation;
};
thread_local Inputs inputs;

// (tap, output) pairs of an axis that fall inside.
double inside(std::int64_t outputs, std::int64_t inputs, std::int64_t taps, std::int64_t stride, std::int64_t pad,
              std::int64_t dilation) {
  std::int64_t count = 0;
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t i = o * stride - pad + k * dilation;
      count += i >= 0 && i < inputs;
    }
  }
  return static_cast<double>(count);
}

void add_product(double gflop) {
  if (watched->first_gflop == 0) watched->first_gflop = gflop;
  watched->forward_gflop += gflop;
}

// aten::conv2d(input, weight, bias, stride, padding, dilation, groups); addmm(bias, input, weight)
void read_inputs(const at::RecordFunction& function) {
  const std::string name = function.name();
  const auto in = function.inputs();
  inputs = {};
  if (name == "aten::conv2d" && in.size() >= 6) {
    inputs = {in[0].toTensor().sizes().vec(), in[1].toTensor().sizes().vec(), in[3].toIntVector(), in[4].toIntVector(),
              in[5].toIntVector()};
  }
  if (name == "aten::addmm" && in.size() >= 3) inputs.w = in[2].toTensor().sizes().vec();
  if (name == "aten::linear" && in.size() >= 2) inputs.w = in[1].toTensor().sizes().vec();
}

void add_convolution(const at::Tensor& out) {
  const auto& [x, w, stride, pad, dilation] = inputs;
  const auto axis = [&](std::size_t a) {
    return inside(out.size(static_cast<std::int64_t>(2 + a)), x[2 + a], w[2 + a], stride[a], pad[a], dilation[a]);
  };
  add_product(2e-9 * axis(0) * axis(1) * static_cast<double>(x[0] * w[0] * w[1]));
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  if (depth++ == 0 && watched != nullptr) read_inputs(function);
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (--depth > 0 || watched == nullptr) return;
  const std::string name = function.name();
  for (const c10::IValue& output : function.outputs()) {
    if (!output.isTensor()) continue;
    const at::Tensor& out = output.toTensor();
    if (!inputs.x.empty()) return add_convolution(out);
    if (!inputs.w.empty()) return add_product(2e-9 * static_cast<double>(out.size(0) * inputs.w[0] * inputs.w[1]));
    const bool is_view = name == "aten::t" || name == "aten::flatten" || name == "aten::view" || name == "aten::reshape";
    if (!is_view) watched->output_gbytes += 1e-9 * static_cast<double>(out.nbytes());
  }
}

}  // namespace

double StepCost::inference_ms(double gflops, double gbytes) const {
  return 1e3 * (forward_gflop / gflops + (2 * output_gbytes + parameter_gbytes) / gbytes);
}

double StepCost::training_ms(double gflops, double gbytes) const {
  return 1e3 * ((3 * forward_gflop - first_gflop) / gflops + (5 * output_gbytes + 5 * parameter_gbytes) / gbytes);
}

StepCost cost_of(const std::function<void()>& forward) {
  StepCost cost;
  const at::CallbackHandle handle = at::addThreadLocalCallback(at::RecordFunctionCallback(on_start, on_end)
                                                                   .needsInputs(true)
                                                                   .needsOutputs(true)
                                                                   .scopes({at::RecordScope::FUNCTION}));
  watched = &cost;
  depth = 0;
  forward();
  watched = nullptr;
  at::removeCallback(handle);
  return cost;
}

}  // namespace isobit::cli
