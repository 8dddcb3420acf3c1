#include "cli/bench_bound.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <string>

namespace isobit::cli {
namespace {

thread_local StepCost* watched = nullptr;
thread_local int depth = 0;

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

// aten::conv2d(input, weight, bias, stride, padding, dilation, groups)
void add_convolution(c10::ArrayRef<const c10::IValue> in, const at::Tensor& out) {
  if (in.size() < 6 || !in[0].isTensor()) return;  // this torch records no inputs here
  const at::Tensor x = in[0].toTensor(), w = in[1].toTensor();
  const auto stride = in[3].toIntVector(), pad = in[4].toIntVector(), dilation = in[5].toIntVector();
  const auto axis = [&](int a) {
    const auto i = static_cast<std::size_t>(a);
    return inside(out.size(2 + a), x.size(2 + a), w.size(2 + a), stride[i], pad[i], dilation[i]);
  };
  add_product(2e-9 * axis(0) * axis(1) * static_cast<double>(x.size(0) * w.size(0) * w.size(1)));
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) {
  ++depth;
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (--depth > 0 || watched == nullptr) return;
  const std::string name = function.name();
  const auto in = function.inputs();
  for (const c10::IValue& output : function.outputs()) {
    if (!output.isTensor()) continue;
    const at::Tensor& out = output.toTensor();
    if (name == "aten::conv2d") return add_convolution(in, out);
    if (name == "aten::addmm" || name == "aten::linear") {
      const at::Tensor weight = in[name == "aten::linear" ? 1 : 2].toTensor();
      return add_product(2e-9 * static_cast<double>(out.size(0)) * static_cast<double>(weight.numel()));
    }
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
