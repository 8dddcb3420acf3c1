"""Where isobit.record listens while its block runs: calls of modules, new loaders, backward passes, steps of optimizers."""

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils.data import DataLoader

from isobit._recording import _stock
from isobit._recording._observed import Depth
from isobit._switching import _hooks

Entered = Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None]


class RecordHooks:
    """Installed until remove(). One at a time in a process; modules may be called on any thread.

    enter: before the outermost call of a module on its thread, with the call's arguments. loader_made: after a DataLoader was
    made. after_step: after each step of an optimizer. backward: before a backward pass, with its roots and whether it adds to
    gradients. stock: stock's own backward passes are watched, which the switch's hooks do not see.
    """

    def __init__(self, enter: Entered, loader_made: Callable[[DataLoader[Any]], None],
                 after_step: Callable[[torch.optim.Optimizer, object, object], None],
                 backward: Callable[[Sequence[torch.Tensor], bool], None], stock: bool) -> None:
        stock_call = self._stock_call = torch.nn.Module.__call__
        stock_init = self._stock_init = DataLoader.__init__
        depth = threading.local()

        def call(module: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
            with Depth(depth) as outermost:
                if outermost:
                    enter(module, arguments, keywords)
                return stock_call(module, *arguments, **keywords)

        @functools.wraps(stock_init)
        def init(loader: DataLoader[Any], *arguments: Any, **keywords: Any) -> None:
            stock_init(loader, *arguments, **keywords)
            loader_made(loader)

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        DataLoader.__init__ = init  # type: ignore[assignment, method-assign]
        self._step_hook = torch_optimizer.register_optimizer_step_post_hook(after_step)
        self._unwatch = _stock.watch_backward() if stock else (lambda: None)
        self._backward = backward
        _hooks.backward_watchers.append(backward)

    def remove(self) -> None:
        torch.nn.Module.__call__ = self._stock_call  # type: ignore[method-assign]
        DataLoader.__init__ = self._stock_init  # type: ignore[method-assign]
        self._step_hook.remove()
        _hooks.backward_watchers.remove(self._backward)
        self._unwatch()
