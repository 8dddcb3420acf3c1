"""Records of what stock PyTorch trains: isobit.record(arithmetic="stock"). Nothing is certified, and nothing is promised.

What the switch does stays off. What a record observes is observed without it: backward passes by an engine of their own.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch.autograd.variable import Variable

from isobit._base import _check_mode, _library
from isobit._base._errors import RecordError
from isobit._switching import _hooks, _switch

Arithmetic = Literal["isobit", "stock"]
KINDS: tuple[Arithmetic, ...] = ("isobit", "stock")
CONTRACT = f"stock-{torch.__version__.partition('+')[0]}"  # where a contract's name stands otherwise


def check(arithmetic: str) -> None:
    if arithmetic not in KINDS:
        raise ValueError(f"isobit.record: unknown arithmetic {arithmetic!r}: one of {', '.join(KINDS)}")


def require_off() -> None:
    if _library.is_on() and not _check_mode.on:
        raise RecordError("isobit.record(arithmetic=\"stock\"): the switch is on, so PyTorch would not compute as it comes\n"
                          "  do     leave isobit.enable() out, or record with arithmetic=\"isobit\"")


def refuse_enable(place: str) -> None:
    """A record is of one arithmetic: the switch, which was just turned on, goes off again."""
    if _check_mode.on:
        return
    _switch.disable()
    raise RecordError(f"isobit.record(arithmetic=\"stock\"): {place} turns the switch on within the block\n"
                      "  do     record what isobit computes in a record of its own")


def refuse_steps() -> None:
    raise RecordError("isobit.record(arithmetic=\"stock\"): run.steps sums grains exactly, which stock PyTorch cannot do\n"
                      "  do     write the loop over a DataLoader: for batch in run.batches(loader)")


def _built_with(library: str) -> str:
    """The line of PyTorch's own description that names it."""
    lines = (line.strip(" -") for line in torch.__config__.show().splitlines())
    return next((line for line in lines if library in line), "none")


def environment() -> dict[str, str]:
    """How stock PyTorch computes in this process, for environment.json; keys as `isobit run` has them."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    return {"arithmetic": "stock", "threads": str(torch.get_num_threads()), "torch": torch.__version__,
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "mkl": _built_with("Math Kernel Library Version"),
            "onednn": _built_with("MKL-DNN") if torch.backends.mkldnn.enabled else "off",
            "openmp": _built_with("OpenMP"),
            "deterministic_algorithms": "off" if not deterministic else "warn only" if warn_only else "on"}


class _WatchedEngine:
    """Stands for torch's engine: tells of each backward, then leaves the work to it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def run_backward(self, roots: Sequence[Any], *arguments: Any, **keywords: Any) -> Any:
        if all(isinstance(root, torch.Tensor) for root in roots):
            for watcher in _hooks.backward_watchers:
                watcher(roots, bool(keywords.get("accumulate_grad")))
        return self._engine.run_backward(roots, *arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def watch_backward() -> Callable[[], None]:
    """Until the function that it returns is called. Where the switch was on before, its own engine tells already."""
    if isinstance(Variable._execution_engine, _hooks._CheckingEngine):
        return lambda: None
    before = Variable._execution_engine
    watching: Any = _WatchedEngine(before)
    Variable._execution_engine = watching

    def stop() -> None:
        if Variable._execution_engine is watching:
            Variable._execution_engine = before

    return stop
