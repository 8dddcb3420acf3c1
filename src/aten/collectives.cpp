#include "aten/collectives.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace isobit::aten {

bool copies_only(const c10::IValue& process_group, const c10::IValue& reduce_op) {
  switch (reduce_op.toCustomClass<c10d::ReduceOp>()->op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::MAX: return process_group.toCustomClass<c10d::ProcessGroup>()->getSize() == 1;
    default: return false;
  }
}

}  // namespace isobit::aten
