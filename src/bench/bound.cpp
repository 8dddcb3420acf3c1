#include "bench/bound.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace isobit::bench {
namespace {

thread_local StepCost* watched = nullptr;
thread_local int depth = 0;

// Of the outermost operator under way: inputs can be read when it begins only, outputs when it ends.
struct Inputs {
  std::vector<std::int64_t> x, w, stride, pad, dilation;  // of a convolution
  double per_output = 0;                                  // multiplications that each output element takes
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

std::vector<std::int64_t> sizes(const c10::IValue& value) { return value.toTensor().sizes().vec(); }

// Multiplications per element of the output; the arguments' order is the operator's schema.
double products(const std::string& name, c10::ArrayRef<const c10::IValue> in) {
  if (name == "aten::addmm" && in.size() >= 3) return static_cast<double>(sizes(in[2])[0]);
  if (name == "aten::matmul" && in.size() >= 2) return static_cast<double>(sizes(in[0]).back());
  if (name == "aten::linear" && in.size() >= 2) return static_cast<double>(sizes(in[1])[1]);
  if (name == "aten::conv_transpose2d" && in.size() >= 5) {
    // Every input meets every tap once: spread over the outputs.
    const auto w = sizes(in[1]), stride = in[3].toIntVector();
    return static_cast<double>(w[0] * w[2] * w[3]) / static_cast<double>(stride[0] * stride[1]);
  }
  if (name == "aten::scaled_dot_product_attention" && in.size() >= 6) {
    const double keys = static_cast<double>(sizes(in[1])[2]);
    return in[5].toBool() ? keys + 1 : 2 * keys;  // causal: half of the pairs, in both products
  }
  return 0;
}

void read_inputs(const at::RecordFunction& function) {
  const std::string name = function.name();
  const auto in = function.inputs();
  inputs = {};
  if (name == "aten::conv2d" && in.size() >= 6) {
    inputs = {sizes(in[0]), sizes(in[1]), in[3].toIntVector(), in[4].toIntVector(), in[5].toIntVector()};
  }
  inputs.per_output = products(name, in);
}

bool is_view(const std::string& name) {
  constexpr const char* kViews[] = {"aten::t",         "aten::flatten", "aten::view",   "aten::reshape",
                                    "aten::transpose", "aten::permute", "aten::select", "aten::narrow",
                                    "aten::squeeze",   "aten::expand",  "aten::slice",  "aten::unsqueeze"};
  return std::any_of(std::begin(kViews), std::end(kViews), [&](const char* view) { return name == view; });
}

void add_convolution(const at::Tensor& out) {
  const auto& [x, w, stride, pad, dilation, unused] = inputs;
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
    if (inputs.per_output > 0) return add_product(2e-9 * inputs.per_output * static_cast<double>(out.numel()));
    if (!is_view(name)) watched->output_gbytes += 1e-9 * static_cast<double>(out.nbytes());
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

}  // namespace isobit::bench
