// What a recurrent layer needs beside its steps: products and sums over whole sequences.
#include "kernels/recurrent.h"

#include <cstring>

#include "kernels/dispatch/kernel_table.h"
#include "kernels/dispatch/workspace.h"
#include "kernels/float_environment.h"
#include "kernels/matmul.h"
#include "kernels/reduce.h"
#include "kernels/threads.h"

namespace isobit::kernels {
namespace {

void copy_row(float* to, const float* from, std::int64_t width) {
  std::memcpy(to, from, sizeof(float) * static_cast<std::size_t>(width));
}

// The hidden state that every row of every step began with.
void previous_hidden(const RecurrentBackward& p, float* previous) {
  const RecurrentShape& s = p.shape;
  parallel_for(0, s.steps, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t r = 0; r < s.rows[t]; ++r) {
        const std::int64_t before = s.before(t, r);
        const float* from = before < 0 ? p.h0 + r * s.hidden : p.y + (s.first[before] + r) * s.hidden;
        copy_row(previous + (s.first[t] + r) * s.hidden, from, s.hidden);
      }
    }
  });
}

// dh0 = the gates' gradients of every row's first step times the weight, after what was carried (GRU).
void initial_gradient(const RecurrentBackward& p, const float* dgates, const float* carried) {
  const RecurrentShape& s = p.shape;
  const std::int64_t batch = s.batch(), width = s.width();
  if (batch == 0) return;
  Workspace workspace;
  float* const gathered = workspace.floats(batch * width);
  for (std::int64_t r = 0; r < batch; ++r) {
    std::int64_t t = 0;
    while (s.reverse && t + 1 < s.steps && r < s.rows[t + 1]) ++t;
    copy_row(gathered + r * width, dgates + (s.first[t] + r) * width, width);
  }
  MatmulProblem product;
  product.m = batch, product.n = s.hidden, product.k = width;
  product.a = {gathered, 0, width, 1};
  product.b = {p.weight, 0, s.hidden, 1};
  if (carried != nullptr) product.addend = {carried, 0, s.hidden, 1};
  product.c = p.dh0, product.c_row_stride = s.hidden;
  matmul(product);
}

}  // namespace

void recurrent_forward(const RecurrentForward& problem) {
  const FloatEnvironment environment;
  active_host_table().recurrent_steps(problem);
}

void recurrent_backward(const RecurrentBackward& problem) {
  const FloatEnvironment environment;
  const RecurrentShape& s = problem.shape;
  const bool gru = s.cell == RecurrentCell::gru;
  Workspace workspace;
  float* const carried = s.cell == RecurrentCell::lstm ? problem.dc0
                         : gru                         ? workspace.floats(s.batch() * s.hidden)
                                                       : nullptr;
  active_host_table().recurrent_steps_backward(problem, carried);
  const float* const dgates = gru ? problem.dhidden_gates : problem.dgates;
  if (problem.dh0 != nullptr) initial_gradient(problem, dgates, gru ? carried : nullptr);
  if (problem.dbias != nullptr) step_sums(s, s.width(), dgates, problem.dbias);
  if (problem.dweight != nullptr) {
    float* const previous = workspace.floats(s.first[s.steps] * s.hidden);
    previous_hidden(problem, previous);
    step_products(s, s.width(), s.hidden, dgates, previous, problem.dweight);
  }
}

// Section 4 sums of each step, runs of steps with the same rows at once; then one chain over the steps.
void step_sums(const RecurrentShape& s, std::int64_t m, const float* a, float* sums) {
  const FloatEnvironment environment;
  Workspace workspace;
  float* const each = workspace.floats(s.steps * m);
  for (std::int64_t t = 0, end = 0; t < s.steps; t = end) {
    while (end < s.steps && s.rows[end] == s.rows[t]) ++end;
    ReduceShape reduce;
    reduce.kept_rank = 2, reduce.reduced_rank = 1;
    reduce.kept_size[0] = end - t, reduce.kept_stride[0] = s.rows[t] * m;
    reduce.kept_size[1] = m, reduce.kept_stride[1] = 1;
    reduce.reduced_size[0] = s.rows[t], reduce.reduced_stride[0] = m;
    sum(reduce, a + s.first[t] * m, each + t * m);
  }
  for (std::int64_t j = 0; j < m; ++j) sums[j] = 0.0f;
  for (std::int64_t taken = s.steps - 1; taken >= 0; --taken) {
    const float* const step = each + s.time(taken) * m;
    for (std::int64_t j = 0; j < m; ++j) sums[j] += step[j];  // no sum is -0: +0 before the first changes nothing
  }
}

}  // namespace isobit::kernels
