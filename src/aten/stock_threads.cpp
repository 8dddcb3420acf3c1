#include "aten/stock_threads.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace isobit::aten {
namespace {

using SetCount = void (*)(int);

// Whether it is the OpenMP that PyTorch asks: there may be several in a process.
bool is_stocks(SetCount set) {
  const int before = at::get_num_threads();
  set(before + 1);
  const bool followed = at::get_num_threads() == before + 1;
  set(before);
  return followed && at::get_num_threads() == before;
}

// omp_set_num_threads, which sets what the calling thread divides by; at::set_num_threads would set MKL's and oneDNN's,
// too, for all. First as libtorch itself finds it, in the process, then in what it was linked to.
SetCount find() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &info) == 0) return nullptr;
  void* const library = ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);  // kept: it is there for good
  for (void* const scope : {RTLD_DEFAULT, library}) {  // a library that is not found is RTLD_DEFAULT again
    const auto set = reinterpret_cast<SetCount>(::dlsym(scope, "omp_set_num_threads"));
    if (set != nullptr && is_stocks(set)) return set;
  }
  return nullptr;
}
SetCount set_count() {
  static const SetCount found = find();
  return found;
}

// PyTorch sets a thread up when it is first asked there, and in a child of fork makes a pool anew by the way, which it
// does not expect of two threads at once.
int threads_of_this_one() {
  thread_local bool is_set_up = false;
  if (is_set_up) return at::get_num_threads();
  static std::atomic<std::mutex*> mutex = new std::mutex;
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { mutex = new std::mutex; });  // whoever held it is not there
  (void)registered;
  const std::lock_guard lock(*mutex.load());
  is_set_up = true;
  return at::get_num_threads();
}

thread_local int kept = 0;  // the count of before, while a scope lives

bool is_small(const torch::jit::Stack& stack, std::size_t count) {
  const auto small = [](const at::Tensor& tensor) { return !tensor.defined() || tensor.numel() < kWorthStocksThreads; };
  return std::all_of(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end(), [&](const c10::IValue& value) {
    if (value.isTensor()) return small(value.toTensor());
    if (!value.isTensorList()) return true;
    std::int64_t all = 0;
    for (const at::Tensor& tensor : value.toTensorList()) all += tensor.defined() ? tensor.numel() : 0;
    return all < kWorthStocksThreads;
  });
}

}  // namespace

void StockOnCaller::begin(bool small) {
  if (!small || kept != 0) return;
  const int before = threads_of_this_one();
  if (before < 2 || set_count() == nullptr) return;
  kept = before, changed_ = true;
  set_count()(1);
}
StockOnCaller::StockOnCaller(const torch::jit::Stack& stack, std::size_t count) {
  begin(kept == 0 && is_small(stack, count));
}

StockOnCaller::~StockOnCaller() {
  if (!changed_) return;
  set_count()(kept);
  kept = 0;
}

bool StockOnCaller::lives() { return kept != 0; }

int stock_thread_count() { return kept != 0 ? kept : at::get_num_threads(); }

}  // namespace isobit::aten
