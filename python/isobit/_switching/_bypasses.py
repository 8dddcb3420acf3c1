"""Ways past PyTorch's dispatcher, or into arithmetic that the contract lacks: refused while the switch is on.

Installed with the first enable(); they pass everything on while the switch is off.
"""

import functools
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from isobit._base import _check_mode, _library
from isobit._base._errors import RefusedError
from isobit._switching import _registrations


def install(disabled: Callable[[], AbstractContextManager[None]]) -> None:
    """disabled: the switch's, within which a model is exported in isobit check."""
    _refuse_compilation(disabled)
    _refuse_compilers()
    _refuse_tensor_expressions()
    _refuse_autocast()
    _refuse_scaling()
    _refuse_graphs()
    _refuse_device_code()
    _refuse_several_devices()
    _refuse_sharding()
    _refuse_backends()
    _registrations.install()


_UNCOMPILED = "run the model uncompiled while isobit is on, or disable isobit"


def refusing(function: Callable[..., Any], name: str, remedy: str,
             applies: Callable[..., bool] = lambda *_arguments, **_keywords: True,
             instead: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The function, which raises while the switch is on, where that applies to the arguments.

    instead: what stands in within isobit check; the function itself where there is none.
    """

    @functools.wraps(function)
    def refuses(*arguments: Any, **keywords: Any) -> Any:
        if _library.is_on() and applies(*arguments, **keywords):
            _check_mode.refuse(RefusedError(
                f"isobit: {name} is not certified under {_library.contract_in_force()}\n  do     {remedy}"))
            return (instead or function)(*arguments, **keywords)
        return function(*arguments, **keywords)

    refuses._isobit = True  # type: ignore[attr-defined]
    return refuses


def _refuse_methods(holder: Any, names: Sequence[str], what: str, remedy: str,
                    applies: Callable[..., bool] = lambda *_arguments, **_keywords: True,
                    instead: Callable[..., Any] | None = None) -> None:
    """refusing() for those that the holder, a module or a class, has; what it refuses already stays.

    what: how the message calls it; {name} in it stands for the name. A property refuses to be read.
    """
    for name in names:
        stock: Any = getattr(holder, name, None)
        is_property = isinstance(stock, property)
        function = stock.fget if is_property else stock
        if function is not None and not hasattr(function, "_isobit"):
            refuses = refusing(function, what.format(name=name), remedy, applies, instead)
            setattr(holder, name, property(refuses) if is_property else refuses)


# ---- torch.compile: its code does not pass the dispatcher


def _refuse_compilation(disabled: Callable[[], AbstractContextManager[None]]) -> None:
    if not hasattr(torch.compile, "_isobit"):
        torch.compile = refusing(torch.compile, "torch.compile", _UNCOMPILED, instead=_uncompiled)
    if not hasattr(torch.export.export, "_isobit"):
        torch.export.export = refusing(
            torch.export.export, "torch.export",
            "export within isobit.disabled(): nothing is computed there, and what was exported is checked when it runs",
            instead=_exported(torch.export.export, disabled))
    # Every other way (torch.compile under another name, torch._dynamo.optimize and run, what was compiled before) sets this
    # callback before it runs; None stands for Python's ordinary execution.
    frames: Any = torch._C._dynamo.eval_frame
    if not hasattr(frames.set_eval_frame, "_isobit"):
        frames.set_eval_frame = _refusing_callbacks(frames.set_eval_frame)
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    for name in ("set_eval_frame", "_maybe_set_eval_frame"):
        if dynamo is not None and not hasattr(getattr(dynamo, name), "_isobit"):
            setattr(dynamo, name, frames.set_eval_frame)


def _refusing_callbacks(stock: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Every step of an optimizer comes here four times, with None: that is not asked about."""
    refuses = refusing(stock, "torch.compile", _UNCOMPILED, instead=lambda _callback: stock(None))

    @functools.wraps(stock)
    def set_eval_frame(callback: Any) -> Any:
        return stock(None) if callback is None else refuses(callback)

    set_eval_frame._isobit = True  # type: ignore[attr-defined]
    return set_eval_frame


def _uncompiled(model: Any = None, **_options: Any) -> Any:
    """torch.compile within isobit check: the model as it is, so that its operators are looked at."""
    return model if model is not None else lambda function: function


def _exported(export: Callable[..., Any], disabled: Callable[[], AbstractContextManager[None]]) -> Callable[..., Any]:
    def without_isobit(*arguments: Any, **keywords: Any) -> Any:
        with disabled():
            return export(*arguments, **keywords)

    return without_isobit


# ---- compilers called by hand, and the code that they have made, which nothing but its objects leads to

_DEVICE_CODE = ("write it in PyTorch's operators, or run this part outside isobit (with isobit.disabled():), "
                "which a record says")
# {module: (what is called there, the name in the message, the remedy)}: whoever imports these pays for it, and so they are not
# imported here.
_COMPILERS = {
    "torch._inductor.compile_fx": (("compile_fx",), "torch._inductor", _UNCOMPILED),
    "torch._inductor.standalone_compile": (("standalone_compile",), "torch._inductor", _UNCOMPILED),
    "torch._inductor.output_code": (("CompiledFxGraph.__call__", "CompiledAOTI.__call__"), "torch._inductor", _UNCOMPILED),
    "triton.runtime.jit": (("JITFunction.run",), "a Triton kernel", _DEVICE_CODE),
    "triton.runtime.interpreter": (("GridExecutor.__call__",), "a Triton kernel", _DEVICE_CODE),
    "triton.compiler.compiler": (("CompiledKernel.__getitem__", "CompiledKernel.run"), "a Triton kernel", _DEVICE_CODE),
}


def _refuse_compilers() -> None:
    if not any(isinstance(finder, _CompilerFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _CompilerFinder())
    for name in _COMPILERS:
        if name in sys.modules:
            _refuse_within(sys.modules[name])


def _refuse_within(module: types.ModuleType) -> None:
    paths, what, remedy = _COMPILERS[module.__name__]
    for path in paths:
        owner, _, name = path.rpartition(".")
        holder = getattr(module, owner, None) if owner else module
        _refuse_methods(holder, (name,), what, remedy, instead=None if owner else lambda model, *_arguments, **_options: model)


class _CompilerFinder(importlib.abc.MetaPathFinder):
    """Finds those modules as the other finders do (an editable install has one of its own); once they are loaded, they refuse."""

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: types.ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _COMPILERS:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in others)), None)
        loader: Any = spec and spec.loader
        if loader is not None and hasattr(loader, "exec_module"):
            load = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                load(module)
                _refuse_within(module)

            loader.exec_module = exec_module
        return spec


def _refuse_tensor_expressions() -> None:
    expressions: Any = getattr(torch._C, "_te", None)
    for kind, methods in (("TensorExprKernel", ("run",)), ("CodeGen", ("call", "call_raw"))):
        _refuse_methods(getattr(expressions, kind, None), methods, f"torch._C._te.{kind}",
                        "call the graph that it was made of: its kernels compute past PyTorch's dispatcher")


# ---- autocast: 16-bit floats have no formulas on a GPU


def _refuse_autocast() -> None:
    _refuse_methods(
        torch.autocast, ("__enter__",), "torch.autocast on a GPU",
        "train in float32 (torch.autocast(..., enabled=False) passes): 16-bit floats are computed with on the CPU alone",
        lambda context: context._enabled and context.device != "cpu", instead=_in_float32(torch.autocast.__enter__))


def _in_float32(enter: Callable[..., Any]) -> Callable[..., Any]:
    """Autocast on a GPU within isobit check: as it is in float32, so that nothing is listed only because of it."""

    def within_check(context: Any) -> Any:
        context._enabled = context._enabled and context.device == "cpu"
        return enter(context)

    return within_check


def _unscaled(scaler: Any, outputs: Any) -> Any:
    scaler._enabled = False
    return outputs


def _refuse_scaling() -> None:
    _refuse_methods(
        torch.amp.GradScaler, ("scale",), "torch.amp.GradScaler",
        "leave it out (GradScaler(enabled=False) passes): float32 and bfloat16 need no scaling",
        lambda scaler, _outputs: scaler.is_enabled(), instead=_unscaled)


# ---- CUDA graphs: what was captured runs without an operator being called


def _refuse_graphs() -> None:
    for graph in (torch.cuda.CUDAGraph, getattr(torch._C, "_CUDAGraph", None)):  # the second: what the first is made of
        _refuse_methods(graph, ("replay",), "torch.cuda.CUDAGraph.replay",
                        "call what it was captured from: a replay calls no operator that could be checked")


# ---- PyTorch's own compilers of device code: a kernel of the program's text computes past the dispatcher


def _refuse_device_code() -> None:
    _refuse_methods(torch._C, ("_cuda_jiterator_compile_and_launch_kernel",), "torch.cuda.jiterator", _DEVICE_CODE)
    _refuse_methods(torch.cuda, ("_compile_kernel",), "torch.cuda._compile_kernel", _DEVICE_CODE)
    compiled: Any = getattr(sys.modules.get("torch.cuda._utils"), "_CudaKernel", None)
    _refuse_methods(compiled, ("__call__",), "torch.cuda._compile_kernel", _DEVICE_CODE)


# ---- nn.DataParallel on several devices: gradients are added by NCCL, in parts that depend on how many devices there are


def _refuse_several_devices() -> None:
    remedy = "use one device (device_ids=[0]): how many there are must not change a bit"
    # torch.nn.parallel.data_parallel is a function
    _refuse_methods(sys.modules["torch.nn.parallel.data_parallel"], ("replicate",), "torch.nn.DataParallel on several devices",
                    remedy)
    # The second has the first's functions, as they are when it is loaded.
    for module in (torch.nn.parallel.comm, sys.modules.get("torch.cuda.comm")):
        _refuse_methods(module, ("reduce_add", "reduce_add_coalesced"), "torch.nn.DataParallel on several devices", remedy)
    adds = lambda *arguments, **keywords: any(map(_has_floats, (*arguments, *keywords.values())))
    _refuse_methods(sys.modules.get("torch.cuda.nccl"), ("all_reduce", "reduce", "reduce_scatter"), "torch.cuda.nccl.{name}",
                    remedy, adds)
    _refuse_methods(torch._C, ("_nccl_all_reduce", "_nccl_reduce", "_nccl_reduce_scatter"), "torch.cuda.nccl", remedy, adds)


# ---- sharded training, where it is loaded already; else its operators are refused (src/aten/remedies.cpp)


def _refuse_sharding() -> None:
    sharding: Any = sys.modules.get("torch.distributed.fsdp")
    if sharding is None:
        return
    remedy = "wrap the model in DistributedDataParallel, and call isobit.distributed.exact(ddp)"
    _refuse_methods(sharding.FullyShardedDataParallel, ("__init__",), "torch.distributed.fsdp.FullyShardedDataParallel", remedy)
    _refuse_methods(sharding, ("fully_shard",), "torch.distributed.fsdp.{name}", remedy)


# ---- collectives that add, of a backend itself: those of a process group are operators, and c10d's


def _refuse_backends() -> None:
    backend: Any = getattr(getattr(torch._C, "_distributed_c10d", None), "Backend", None)
    _refuse_methods(backend, ("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "_reduce_scatter_base"),
                    "torch.distributed.Backend.{name}",
                    "wrap the model in DistributedDataParallel, and call isobit.distributed.exact(ddp)", _adds_floats)


def _adds_floats(backend: Any, *arguments: Any, **keywords: Any) -> bool:
    """One rank only copies, unless it scales what it copies."""
    values = (*arguments, *keywords.values())
    return (backend.size() > 1 or any(map(_scales, values))) and any(map(_has_floats, values))


def _scales(value: Any) -> bool:
    operation = getattr(value, "reduceOp", value)  # of a backend's options, or by itself
    return str(getattr(operation, "op", operation)).endswith("PREMUL_SUM")


def _has_floats(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.is_floating_point() or value.is_complex()
    return isinstance(value, (list, tuple)) and any(map(_has_floats, value))
