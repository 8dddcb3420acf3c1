"""What PyTorch's Python part does beside the dispatcher, and how the switch reaches it.

While the switch is on: names of modules and numbers of steps for refusals. From the first enable() on: the check of
graphs before each backward, and the refusal of torch.compile (both do nothing where nothing is wrong).
"""

import functools
import sys
import threading
import weakref

import torch
from torch.autograd.variable import Variable
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer

from isobit import _library

_handles = []
_generation = 0  # counts install(): what a thread noted before is stale


def install():
    global _generation, _steps
    _generation += 1
    _steps = 0
    _check_graphs()
    _refuse_compilation()
    _refuse_autocast()
    _refuse_scaling()
    _handles.append(torch_module.register_module_forward_pre_hook(_enter))
    _handles.append(torch_module.register_module_forward_hook(_leave, always_call=True))
    _handles.append(torch_optimizer.register_optimizer_step_post_hook(_after_step))


def remove():
    while _handles:
        _handles.pop().remove()
    _library.begin_step(-1)


# ---- names of modules


class _Place(threading.local):
    def __init__(self):
        self.generation = 0
        self.modules = []


_place = _Place()
_names = weakref.WeakKeyDictionary()  # module -> {id of a module within: its name there}


def _name_within(parent, module):
    names = _names.get(parent)
    if names is None or id(module) not in names:
        names = {id(part): name for name, part in parent.named_modules()}
        _names[parent] = names
    return names.get(id(module)) or type(module).__name__


def _enter(module, _arguments):
    open_modules = _place.modules
    if _place.generation != _generation:  # the switch was turned within a forward
        while open_modules:
            open_modules.pop()
            _library.leave_module()
        _place.generation = _generation
    name = _name_within(open_modules[-1], module) if open_modules else type(module).__name__
    _library.enter_module(name)
    open_modules.append(module)


def _leave(module, _arguments, _result):
    open_modules = _place.modules
    if not any(entered is module for entered in open_modules):
        return
    while True:
        last = open_modules.pop()
        _library.leave_module()
        if last is module:
            return


# ---- numbers of steps: one per optimizer step since enable()

_steps = 0


def _after_step(_optimizer, _arguments, _keywords):
    global _steps
    _steps += 1
    _library.begin_step(_steps + 1)


# ---- graphs: recorded and run under the same setting of the switch

backward_watchers = []  # called with the roots of each backward, and whether it adds to .grad (isobit.record)


class _CheckingEngine:
    """Stands for torch's engine: looks at the graph, then leaves the work to it."""

    def __init__(self, engine):
        self._engine = engine

    def run_backward(self, roots, *arguments, **keywords):
        if not all(isinstance(root, torch.Tensor) for root in roots):
            raise RuntimeError("isobit: a backward from a GradientEdge is not certified under "
                               f"{_library.contract_version}\n  do     give the tensor itself: its graph can be checked")
        _library.check_graph(roots)
        for watcher in backward_watchers:
            watcher(roots, bool(keywords.get("accumulate_grad")))
        return self._engine.run_backward(roots, *arguments, **keywords)

    def __getattr__(self, name):
        return getattr(self._engine, name)


def _check_graphs():
    if not isinstance(Variable._execution_engine, _CheckingEngine):
        Variable._execution_engine = _CheckingEngine(Variable._execution_engine)


# ---- torch.compile: its code does not pass the dispatcher


def _refusing(function, applies=lambda *_arguments, **_keywords: True, name="torch.compile",
              remedy="run the model uncompiled while isobit is on, or disable isobit"):
    """The function, which raises while the switch is on, where it applies to the arguments."""

    @functools.wraps(function)
    def refuses(*arguments, **keywords):
        if _library.is_on() and applies(*arguments, **keywords):
            raise RuntimeError(f"isobit: {name} is not certified under {_library.contract_version}\n  do     {remedy}")
        return function(*arguments, **keywords)

    refuses._isobit = True
    return refuses


def _refuse_compilation():
    if not hasattr(torch.compile, "_isobit"):
        torch.compile = _refusing(torch.compile)
    # What was compiled before asks this function at each call which code to run; with None, the ordinary one.
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None and not hasattr(dynamo._callback_from_stance, "_isobit"):
        dynamo._callback_from_stance = _refusing(dynamo._callback_from_stance, lambda callback: callback is not None)


# ---- autocast: what it makes of float32 has no formulas in the contract


def _refuse_autocast():
    if not hasattr(torch.autocast.__enter__, "_isobit"):
        torch.autocast.__enter__ = _refusing(
            torch.autocast.__enter__, lambda context: context._enabled, "torch.autocast",
            "train in float32 (torch.autocast(..., enabled=False) passes): the contract has no 16-bit arithmetic yet")


def _refuse_scaling():
    if not hasattr(torch.amp.GradScaler.scale, "_isobit"):
        torch.amp.GradScaler.scale = _refusing(
            torch.amp.GradScaler.scale, lambda scaler, _outputs: scaler.is_enabled(), "torch.amp.GradScaler",
            "leave it out (GradScaler(enabled=False) passes): it serves 16-bit gradients, and training is in float32 here")
