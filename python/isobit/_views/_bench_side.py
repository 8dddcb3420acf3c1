"""One side of `python -m isobit bench`: the first steps of a script, timed, in a process of their own.

Nothing is recorded and nothing is certified: what isobit refuses runs as stock PyTorch and is listed (_check_mode.py).
"""

import json
import os
import pathlib
import resource
import sys
import time
from typing import Any

import torch

from isobit._base import _check_mode
from isobit._switching import _switch
from isobit._views._bench import BETWEEN
from isobit._views._script import Enough, become, run_steps

ENGINE = "autograd::engine::evaluate_function: "


def core_time() -> tuple[int, int]:
    """ns in which this thread ran, and in which it could have run while others had the cores; zeros where the kernel does not
    count."""
    try:
        ran, waited, _ = map(int, pathlib.Path("/proc/thread-self/schedstat").read_text().split())
        return ran, waited
    except (OSError, ValueError):
        return 0, 0


class Steps:
    """A step ends with the step() of the optimizer that steps first: warm-up, then timed ones, then some under the profiler."""

    def __init__(self, warm_up: int, timed: int, profiled: int) -> None:
        self.warm_up, self.timed, self.profiled = warm_up, timed, profiled
        self.done = 0
        self.times: list[float] = []  # ms
        self.profiled_ms = 0.0
        self._optimizer: object | None = None
        self._began = 0.0
        self._cores = (0, 0)
        self._ran = 0.0
        self.waited = 0.0  # share of the timed steps
        self.ran_ms = 0.0  # a timed step's, of the calling thread on a core
        self.profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True)

    def after_step(self, optimizer: object, _arguments: object, _keywords: object) -> None:
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer:
            return
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.done += 1
        if self.warm_up < self.done <= self.warm_up + self.timed:
            self.times.append((now - self._began) * 1e3)
        if self.done == self.warm_up:
            self._cores, self._ran = core_time(), time.thread_time()
        if self.done == self.warm_up + self.timed:
            ran, waited = (now - before for now, before in zip(core_time(), self._cores, strict=True))
            self.waited = waited / max(ran + waited, 1)
            # The system counts the other two by its ticks.
            self.ran_ms = (time.thread_time() - self._ran) * 1e3 / max(self.timed, 1)
            self.profiler.start()
            now = time.perf_counter()
        elif self.done == self.warm_up + self.timed + self.profiled:
            self.profiled_ms += (now - self._began) * 1e3
            self.profiler.stop()
            raise Enough
        elif self.done > self.warm_up + self.timed:
            self.profiled_ms += (now - self._began) * 1e3
        self._began = now

    def operators(self) -> dict[str, dict[str, float]]:
        """Outermost operators and nodes of the backward pass by name: calls and ms a step, and the time between them."""
        found: dict[str, dict[str, float]] = {}
        for event in self.profiler.events() or ():
            if event.cpu_parent is not None or event.is_async:
                continue
            entry = found.setdefault(event.name.removeprefix(ENGINE), {"calls": 0.0, "ms": 0.0})
            entry["calls"] += 1 / self.profiled
            entry["ms"] += event.cpu_time_total / 1e3 / self.profiled
        known = sum(entry["ms"] for entry in found.values())
        found[BETWEEN] = {"calls": 0.0, "ms": max(0.0, self.profiled_ms / self.profiled - known)}
        return found


def _run(script: str, steps: Steps) -> bool:
    """Whether the steps were made before the script ended."""
    try:
        return run_steps(script, steps.after_step)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
    return False


def main() -> None:
    """Its one argument is JSON: side, steps, script and its arguments, and the file for what was found."""
    asked: dict[str, Any] = json.loads(sys.argv[1])
    result = pathlib.Path(asked["result"])
    become(asked["script"], asked["arguments"])
    if asked["threads"]:
        torch.set_num_threads(asked["threads"])
    _switch.begin_check(result.with_suffix(".refusals"))
    if asked["side"] == "isobit":
        _switch.enable()
    else:
        _switch.stay_off()
    steps = Steps(asked["warm_up"], asked["steps"], asked["profiled"])
    enough = _run(asked["script"], steps)
    found: dict[str, Any] = {"steps": steps.done, "enough": enough, "contract": _check_mode.contract,
                             "threads": torch.get_num_threads(),
                             "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                             "refused": sorted({one.operator for one in _check_mode.collect()})}
    if enough:
        found |= {"times": steps.times, "operators": steps.operators(), "waited": steps.waited, "ran_ms": steps.ran_ms}
    result.write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # loaders' workers and threads of the script end with it


if __name__ == "__main__":
    main()
