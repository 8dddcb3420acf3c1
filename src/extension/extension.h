// The operators as a shared library that any PyTorch process can load (ctypes, or torch.ops.load_library).
//
// C functions; each that returns no value of its own returns nullptr, or a message that stays valid until the thread's
// next call. The switch is counted: as many isobit_disable as isobit_enable bring stock PyTorch back. Thread-safe as
// aten/operator_switch.h and kernels/isa.h say. The Python package (python/isobit) is written on these functions.
#pragma once

#include <cstdint>

extern "C" {

const char* isobit_enable();
const char* isobit_disable();
int isobit_is_on();
// "auto", "reference", "avx2", "avx512"; no kernel may be running.
const char* isobit_set_isa(const char* name);
const char* isobit_isa();
const char* isobit_set_threads(int count);
// Gives the memory that waits for tensors back to the system (aten/tensor_memory.h); its bytes.
std::int64_t isobit_release_memory();
// From now on torch.set_num_threads governs, as it stands on the thread that calls an operator.
void isobit_threads_from_torch();

// Tensors are given as Python's `tensor._cdata` (a TensorImpl), which the caller keeps alive.
//
// What the engine does before a backward from these tensors (aten/graph_check.h).
const char* isobit_check_graph(void* const* roots, std::int64_t count);
// 32 hexadecimal digits and a zero (trace/tensor_fingerprint.h). CPU tensors of float32, int64, uint8, bool.
const char* isobit_fingerprint(void* tensor, char* hex);
const char* isobit_fingerprint_list(void* const* tensors, const char* const* names, std::int64_t count, char* hex);

// Where the calling thread is, for refusals (aten/module_path.h).
const char* isobit_enter_module(const char* name);
const char* isobit_leave_module();
const char* isobit_begin_step(std::int64_t step);

// Every operator registered at this moment and its class on the CPU (aten/classification.h), sorted by name: a line each,
// "certified<TAB>aten::add<TAB>Tensor<TAB>the contract's section, or why". *lines stays valid until the thread's next call.
const char* isobit_operators(const char** lines);
// What refusals tell the user to call for that list; "isobit ops" unless set. Before the first isobit_enable.
const char* isobit_set_ops_command(const char* command);

// "isobit-0.1"
const char* isobit_contract_version();
// Devices with kernels in this build and a driver on this machine; 0 without.
int isobit_device_count();
// "NVIDIA H200, compute capability 9.0, 132 multiprocessors"; empty where there is none.
const char* isobit_device_name(int index);
}
