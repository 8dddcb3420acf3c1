// Optimizer steps: one pass over the parameters and their states, up to kTensors tensors a launch.
//
// A model has hundreds of parameters, most of them small: a launch for each would take the host longer than the device.
// The arrays' places travel as the kernel's parameters (4 KiB at most); a block belongs to one tensor.
#include "contract/optimizer.h"

#include "kernels/formulas/optimizer_coefficients.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/table.h"

namespace isobit::kernels::ISOBIT_CUDA {
namespace {

constexpr int kThreads = 256, kTensors = 64, kVector = 4;
constexpr std::int64_t kBlockElements = 2 * kVector * kThreads;

template <class Arrays>
struct Batch {
  Arrays tensors[kTensors];
  std::int64_t first_block[kTensors + 1];  // the last: all blocks
  int count;
};

// The tensor that a block belongs to. None of a batch is empty.
template <class Arrays>
ISOBIT_DEVICE int tensor_of(const Batch<Arrays>& batch, std::int64_t block) {
  int from = 0, to = batch.count;  // first_block[from] <= block < first_block[to]
  while (to - from > 1) {
    const int middle = (from + to) / 2;
    (batch.first_block[middle] <= block ? from : to) = middle;
  }
  return from;
}

ISOBIT_DEVICE bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// What a thread does with four neighbours, or with one element at a border.
struct SgdElements {
  contract::SgdCoefficients c;

  ISOBIT_DEVICE static bool aligned(const SgdArrays& t) {
    return is_aligned(t.parameter) && is_aligned(t.gradient) && is_aligned(t.buffer);
  }
  ISOBIT_DEVICE void four(const SgdArrays& t, std::int64_t i) const {
    Float4 p = load4(t.parameter + i), b{};
    const Float4 g = load4(t.gradient + i);
    if (c.with_momentum && !c.first_step) b = load4(t.buffer + i);
    contract::sgd_element(c, p.x, g.x, b.x);
    contract::sgd_element(c, p.y, g.y, b.y);
    contract::sgd_element(c, p.z, g.z, b.z);
    contract::sgd_element(c, p.w, g.w, b.w);
    store4(t.parameter + i, p);
    if (c.with_momentum) store4(t.buffer + i, b);
  }
  ISOBIT_DEVICE void one(const SgdArrays& t, std::int64_t i) const {
    float p = t.parameter[i], b = c.with_momentum && !c.first_step ? t.buffer[i] : 0.0f;
    contract::sgd_element(c, p, t.gradient[i], b);
    t.parameter[i] = p;
    if (c.with_momentum) t.buffer[i] = b;
  }
};

struct AdamElements {
  contract::AdamCoefficients c;

  ISOBIT_DEVICE static bool aligned(const AdamArrays& t) {
    return is_aligned(t.parameter) && is_aligned(t.gradient) && is_aligned(t.exp_avg) && is_aligned(t.exp_avg_sq);
  }
  ISOBIT_DEVICE void four(const AdamArrays& t, std::int64_t i) const {
    Float4 p = load4(t.parameter + i), m = load4(t.exp_avg + i), v = load4(t.exp_avg_sq + i);
    const Float4 g = load4(t.gradient + i);
    contract::adam_element(c, p.x, g.x, m.x, v.x);
    contract::adam_element(c, p.y, g.y, m.y, v.y);
    contract::adam_element(c, p.z, g.z, m.z, v.z);
    contract::adam_element(c, p.w, g.w, m.w, v.w);
    store4(t.parameter + i, p);
    store4(t.exp_avg + i, m);
    store4(t.exp_avg_sq + i, v);
  }
  ISOBIT_DEVICE void one(const AdamArrays& t, std::int64_t i) const {
    float p = t.parameter[i], m = t.exp_avg[i], v = t.exp_avg_sq[i];
    contract::adam_element(c, p, t.gradient[i], m, v);
    t.parameter[i] = p;
    t.exp_avg[i] = m;
    t.exp_avg_sq[i] = v;
  }
};

template <class Elements, class Arrays>
ISOBIT_KERNEL ISOBIT_LAUNCH_BOUNDS(kThreads, 4) void steps_kernel(const Elements elements, const Batch<Arrays> batch) {
  const int place = tensor_of(batch, block_index());
  const Arrays t = batch.tensors[place];
  const std::int64_t first = (block_index() - batch.first_block[place]) * kBlockElements;
  const std::int64_t last = first + kBlockElements < t.n ? first + kBlockElements : t.n;
  if (Elements::aligned(t)) {
    for (std::int64_t i = first + thread_index() * kVector; i < last; i += kThreads * kVector) {
      if (i + kVector <= last) {
        elements.four(t, i);
      } else {
        for (std::int64_t k = i; k < last; ++k) elements.one(t, k);
      }
    }
  } else {
    for (std::int64_t i = first + thread_index(); i < last; i += kThreads) elements.one(t, i);
  }
}

template <class Elements, class Arrays>
void in_batches(const Elements& elements, const Arrays* tensors, std::int64_t count) {
  Batch<Arrays> batch{};
  const auto run = [&] {
    launch(steps_kernel<Elements, Arrays>, {batch.first_block[batch.count], kThreads}, elements, batch);
    batch.count = 0;
  };
  for (const Arrays* t = tensors; t != tensors + count; ++t) {
    if (t->n == 0) continue;
    if (batch.count == kTensors) run();
    batch.tensors[batch.count] = *t;
    batch.first_block[batch.count + 1] = batch.first_block[batch.count] + ceil_div(t->n, kBlockElements);
    ++batch.count;
  }
  if (batch.count > 0) run();
}

void sgd_steps(const SgdOptions& options, bool first_step, const SgdArrays* tensors, std::int64_t count) {
  in_batches(SgdElements{coefficients(options, first_step)}, tensors, count);
}

void adam_steps(const AdamOptions& options, std::int64_t step, const AdamArrays* tensors, std::int64_t count) {
  in_batches(AdamElements{coefficients(options, step)}, tensors, count);
}

}  // namespace

void fill_optimizer(KernelTable& t) {
  t.sgd_steps = sgd_steps;
  t.adam_steps = adam_steps;
}

}  // namespace isobit::kernels::ISOBIT_CUDA
