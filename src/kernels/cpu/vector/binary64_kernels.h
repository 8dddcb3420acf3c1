// The kernels on binary64 of an instruction set: the reference's sources, compiled once more with its fused
// multiply-add (binary64_networks.cpp, binary64_places.cpp), and loops of their own in the places of some.
#pragma once

#include "kernels/dispatch/kernel_table.h"

namespace isobit::kernels::ISOBIT_ISA {

// The reference's sources, for shapes that the loops of this instruction set leave to them.
[[nodiscard]] const HostTable& plain_binary64();

void fill_batch_norm(HostTable& t);
void fill_group_norm(HostTable& t);
void fill_indexed(HostTable& t);
void fill_loss(HostTable& t);
void fill_random(HostTable& t);
void fill_reduce(HostTable& t);
void fill_scan(HostTable& t);
void fill_softmax(HostTable& t);

void fill_binary64_matmul(HostTable& t);
void fill_binary64_powers(HostTable& t);
void fill_binary64_reductions(HostTable& t);

}  // namespace isobit::kernels::ISOBIT_ISA
