"""All operators that a model needs and isobit refuses: each refusal is noted, and stock's kernel stands in for it.

For lists of what to certify next; nothing computed here is by the contract.
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import isobit
from isobit._base import _library
from model_runs.execute import first_line, optimizer_of, step


class _Noted:
    def __init__(self):
        self.refusals = {}  # operator: first line of the message
        self.stage = ""

    def note(self, error):
        name = error.operator or first_line(error)
        self.refusals.setdefault(f"{name}", {"operator": name, "message": first_line(error), "stage": self.stage})


class _Operators(TorchDispatchMode):
    """Below autograd: the graph is that of the switch."""

    def __init__(self, noted):
        super().__init__()
        self.noted = noted

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        try:
            return function(*arguments, **(keywords or {}))
        except isobit.RefusedError as error:
            self.noted.note(error)
        with isobit.disabled():
            return function(*arguments, **(keywords or {}))


class _Functions(TorchFunctionMode):
    """What is refused above: composites that are not in the list."""

    def __init__(self, noted):
        super().__init__()
        self.noted = noted

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        try:
            return function(*arguments, **(keywords or {}))
        except isobit.RefusedError as error:
            self.noted.note(error)
        except RuntimeError as error:
            if "wrapped number" not in str(error):
                raise
            return self._without_operators(function, arguments, keywords or {})
        with isobit.disabled():
            return function(*arguments, **(keywords or {}))

    def _without_operators(self, function, arguments, keywords):
        """PyTorch cannot hand every number that an operator was given to a mode in Python: the function in one piece, then."""
        with _disable_current_modes():
            try:
                return function(*arguments, **keywords)
            except isobit.RefusedError as error:
                self.noted.note(error)
            with isobit.disabled():
                return function(*arguments, **keywords)


def probe(entry):
    """{"refusals": [{"operator", "message", "stage"}], "stopped": why it could not go on, or ""}"""
    torch.set_num_threads(1)
    noted = _Noted()
    stopped = ""
    _library.check_graph = lambda _roots: None  # the graph is of both settings here, on purpose
    with contextlib.ExitStack() as stack:
        stack.enter_context(isobit.enabled())
        stack.enter_context(_Functions(noted))
        stack.enter_context(_Operators(noted))
        try:
            noted.stage = "making it"
            isobit.seed(1)
            case = entry.make()
            case.model.train()
            noted.stage = "training it"
            step(case, optimizer_of(case.model))
        except Exception as error:
            stopped = f"{type(error).__name__}: {first_line(error)}"
    return {"refusals": list(noted.refusals.values()), "stopped": stopped}
