#include "aten/stand_ins.h"

#include <algorithm>
#include <list>
#include <string_view>
#include <vector>

#include <c10/core/DispatchKeySet.h>

#include "aten/check_mode.h"
#include "aten/dispatcher_entry.h"
#include "aten/refusal.h"

namespace isobit::aten {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::KernelFunction;
using c10::OperatorHandle;
using c10::Stack;
using c10::impl::AnnotatedKernel;

// The newest first.
const std::list<AnnotatedKernel>& registered(const OperatorHandle& op, DispatchKey key) {
  static const std::list<AnnotatedKernel> none;
  const auto& kernels = kernels_of(op);
  const auto found = kernels.find(key);
  return found == kernels.end() ? none : found->second;
}

bool is_ours(const AnnotatedKernel& kernel) { return is_switchs(kernel) || kernel.debug == kGuardsKernel; }
bool is_noting(const AnnotatedKernel& kernel) { return kernel.debug == kNotingKernel; }

const KernelFunction* first_of_stock(const OperatorHandle& op, DispatchKey key) {
  for (const AnnotatedKernel& each : registered(op, key)) {
    if (!is_ours(each) && !is_noting(each) && each.kernel.isValid() && !each.kernel.isFallthrough())
      return &each.kernel;
  }
  return nullptr;
}

bool is_autograd(DispatchKey key) { return c10::isIncludedInAlias(key, DispatchKey::Autograd); }

// What would stand there without us, as the dispatcher chooses among aliases; null: nothing, the next key's turn.
const KernelFunction* stock_at(const OperatorHandle& op, DispatchKey key) {
  if (const auto* kernel = first_of_stock(op, key)) return kernel;
  constexpr DispatchKey kExplicit[] = {DispatchKey::CompositeExplicitAutogradNonFunctional,
                                       DispatchKey::CompositeExplicitAutograd};
  bool has_backend =
      first_of_stock(op, DispatchKey::CPU) != nullptr || first_of_stock(op, DispatchKey::CUDA) != nullptr;
  for (const DispatchKey alias : kExplicit) {
    const auto* kernel = first_of_stock(op, alias);
    if (kernel != nullptr && c10::isIncludedInAlias(key, alias)) return kernel;
    has_backend |= kernel != nullptr;
  }
  if (c10::isIncludedInAlias(key, DispatchKey::CompositeImplicitAutograd) && !(is_autograd(key) && has_backend)) {
    if (const auto* kernel = first_of_stock(op, DispatchKey::CompositeImplicitAutograd)) return kernel;
  }
  return is_autograd(key) ? first_of_stock(op, DispatchKey::Autograd) : nullptr;
}

void call_stock(const OperatorHandle& op, DispatchKey key, DispatchKeySet keys, Stack* stack) {
  const check_mode::StandingIn standing_in;
  if (const KernelFunction* stock = stock_at(op, key)) return stock->callBoxed(op, keys, stack);
  op.redispatchBoxed(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, key), stack);
}

void call_or_note(const OperatorHandle& op, DispatchKeySet keys, Stack* stack) {
  const DispatchKey key = keys.highestPriorityTypeId();
  const auto& kernels = registered(op, key);
  const auto ours = std::find_if(kernels.begin(), kernels.end(), is_ours);
  if (ours == kernels.end()) return call_stock(op, key, keys, stack);
  const std::size_t below = stack->size() - op.schema().arguments().size();
  const std::vector<c10::IValue> arguments(stack->begin() + static_cast<std::ptrdiff_t>(below), stack->end());
  try {
    return ours->kernel.callBoxed(op, keys, stack);
  } catch (const std::exception& error) {
    if (!is_refusal(error)) throw;
    check_mode::note(error);
  }
  stack->resize(below);
  stack->insert(stack->end(), arguments.begin(), arguments.end());
  call_stock(op, key, keys, stack);
}

}  // namespace

bool is_ours_at(const OperatorHandle& op, DispatchKey key) {
  const auto& kernels = registered(op, key);
  return std::any_of(kernels.begin(), kernels.end(), is_ours);
}

KernelFunction noting_kernel() { return KernelFunction::makeFromBoxedFunction<&call_or_note>(); }

}  // namespace isobit::aten
