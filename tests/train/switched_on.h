// Tests of trainings under the operator switch, with one thread of PyTorch's own.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "aten/operator_switch.h"

namespace isobit::train {

class SwitchedOn : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);
    on_ = new aten::OperatorSwitch;
  }
  static void TearDownTestSuite() { delete on_; }

 private:
  static inline aten::OperatorSwitch* on_ = nullptr;
};

}  // namespace isobit::train
