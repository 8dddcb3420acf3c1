// How the arithmetic of an experiment is carried out; the bits are the same.
#pragma once

#include <c10/core/Device.h>

#include <functional>

#include "grains/grain_place.h"

namespace isobit::train {

class SharedSteps;

enum class GrainOrder { ascending, shuffled };

struct Execution {
  GrainOrder grain_order = GrainOrder::ascending;
  c10::Device device = c10::kCPU;  // a CUDA device needs kernels::device_backend()
  bool batch_digests = true;       // false: StepResult::batch_digest is zero, for measuring what digests cost
  int workers = 1;                 // of this process, each a thread with a model of its own
  SharedSteps* shared = nullptr;   // the other processes of the job (shared_steps.h); must outlive the trainer
  // Called by a worker between computing a grain and adding it; for tests: it may sleep, or throw WorkerStopped.
  std::function<void(int worker, const grains::GrainPlace& grain)> before_add = {};
};

}  // namespace isobit::train
