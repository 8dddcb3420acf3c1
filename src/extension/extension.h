// The operators as a shared library that any PyTorch process can load (ctypes, or torch.ops.load_library).
//
// C functions; each returns nullptr, or a message that stays valid until the thread's next call. The switch is
// counted: as many isobit_disable as isobit_enable bring stock PyTorch back. Thread-safe as
// aten/operator_switch.h and kernels/isa.h say.
#pragma once

extern "C" {

const char* isobit_enable();
const char* isobit_disable();
// "auto", "reference", "avx2", "avx512"; no kernel may be running.
const char* isobit_set_isa(const char* name);
const char* isobit_set_threads(int count);

// "isobit-0.1"
const char* isobit_contract_version();
// Devices with kernels in this build and a driver on this machine; 0 without.
int isobit_device_count();
// "NVIDIA H200, compute capability 9.0, 132 multiprocessors"; empty where there is none.
const char* isobit_device_name(int index);
}
