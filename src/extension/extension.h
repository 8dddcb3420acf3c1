// The operators as a shared library that any PyTorch process can load (ctypes, or torch.ops.load_library).
//
// C functions; each that returns no value of its own returns nullptr, or a message that stays valid until the
// thread's next call; isobit_is_refusal tells whether it is a refusal's (aten/refusal.h). The switch is counted: as
// many isobit_disable as isobit_enable bring stock PyTorch back. Thread-safe as aten/operator_switch.h and
// kernels/isa.h say. The Python package (python/isobit) is written on these functions.
#pragma once

#include <cstdint>

extern "C" {

// Whether the last message that a function returned on this thread is a refusal's.
int isobit_is_refusal();

// products: "ordered", "exact3" (contract/product_tier.h); within a switch that is on, that switch's.
const char* isobit_enable(const char* products);
const char* isobit_disable();
int isobit_is_on();
// The tier in force ("ordered" while it is off), and the contract's name with it: "isobit-0.1", "isobit-0.1-exact3".
const char* isobit_products();
const char* isobit_contract_in_force();
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
// Whether every operator's call is observed for it.
int isobit_operators_observed();
// 32 hexadecimal digits and a zero (trace/tensor_fingerprint.h). CPU tensors of float32, int64, uint8, bool.
const char* isobit_fingerprint(void* tensor, char* hex);
const char* isobit_fingerprint_list(void* const* tensors, const char* const* names, std::int64_t count, char* hex);

// torch.optim's steps in one pass (aten/optimizer_steps.h). "": the caller has to run the sequence, and nothing has
// changed. tensors: `count` parameters, then their gradients, and so on; Adam: both averages and the steps; SGD: the
// buffers, where momentum is not 0. scalars: Adam: lr, beta1, beta2, eps, weight_decay; SGD: lr, momentum, dampening,
// weight_decay. together: not 0 in place of a foreach form.
const char* isobit_adam_in_one_pass(void* const* tensors, std::int64_t count, const double* scalars, int decoupled,
                                    int together);
const char* isobit_sgd_in_one_pass(void* const* tensors, std::int64_t count, int buffers, const double* scalars,
                                   int nesterov, int together);

// Where the calling thread is, for refusals (aten/module_path.h). A module is Python's id() of it. Entering gives how
// many the thread is within then; 0: isobit_enter_new_module has to say its name, and gives 0 where it fails (no
// memory). Leaving the n-th leaves those within it, too, and does nothing where there are fewer.
int isobit_enter_module(std::uint64_t module);
int isobit_enter_new_module(std::uint64_t module, const char* name);
void isobit_leave_module(int n);
// It is gone: another object may have its id.
void isobit_forget_module(std::uint64_t module);
const char* isobit_begin_step(std::int64_t step);
// A refusal where a library has replaced a kernel while the switch is on (aten/guard.h).
const char* isobit_check_kernels();

// The check (aten/check_mode.h): from now on, and for good, refusals are noted (on the thread that meets them) and
// computed by stock. Before the first isobit_enable; afterwards no function here gives a fingerprint, and none of
// records.h does anything.
const char* isobit_begin_check(void (*note)(const char* message));
int isobit_is_check();

// TorchScript (aten/torchscript_guard.h). Objects are given as Python's id() of them; header: the size of Python's
// object header (object.__basicsize__), behind which pybind11 keeps the pointer to what the object holds. That layout
// is the torch's that this library was built for.
//
// From now on the interpreter's own operators ask the switch.
const char* isobit_guard_scripts();
// Before a call of a torch._C.ScriptMethod (method) or torch._C.ScriptFunction.
const char* isobit_check_script(const void* script, std::int64_t header, int method);
// Of a torch._C.CompilationUnit: the next call of a function of it compiles the function again.
const char* isobit_forget_plans(const void* unit, std::int64_t header);
// Where no script runs: the memory of plans that were compiled again.
const char* isobit_release_plans();

// Every operator registered at this moment and its class on the CPU (aten/classification.h), sorted by name: a line
// each, "certified<TAB>aten::add<TAB>Tensor<TAB>the contract's section, or why". *lines stays valid until the thread's
// next call.
const char* isobit_operators(const char** lines);
// What refusals tell the user to call for that list; "isobit ops" unless set. Before the first isobit_enable.
const char* isobit_set_ops_command(const char* command);
// The Python class that PyTorch raises for refusals, as id() gives it; without it RuntimeError. It has to live as
// long as the process: the caller keeps a reference for good. Before the first isobit_enable.
void isobit_set_refusal_type(void* type);

// Host scalars (contract/host_functions.h, host_power.h): correctly rounded, special values as C has them. The names of
// the functions of one argument, with a space between; function: the position of its name there.
const char* isobit_scalar_functions();
double isobit_scalar_function(int function, double x);
double isobit_scalar_power(double x, double y);
double isobit_scalar_angle(double y, double x);  // atan2

// The program's commands (cli/program.h); not where the library has the operators alone.
int isobit_program(int argc, char** argv);

// "isobit-0.1"
const char* isobit_contract_version();
// Devices with kernels in this build and a driver on this machine; 0 without.
int isobit_device_count();
// "NVIDIA H200, compute capability 9.0, 132 multiprocessors"; empty where there is none.
const char* isobit_device_name(int index);
// For measurements: the tile (0 to 3; -1: as planned) and the leaves of a chunk of products on a device. nullptr, or
// what is wrong.
const char* isobit_force_product_plan(int tile, std::int64_t chunk_leaves);
}
