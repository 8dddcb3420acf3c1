"""The metrics, epochs and learning rates of transformers' Trainer in a record: a callback for it.

    with isobit.record("runs/") as run:
        transformers.Trainer(model, arguments, train_dataset=..., callbacks=[isobit.transformers.Recorder(run)]).train()

Needs the package transformers, which is not a requirement of isobit.
"""

import importlib.util
import math
import numbers
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobit._recording._record import record

if importlib.util.find_spec("transformers") is None:
    raise ImportError("isobit.transformers needs transformers, which is not installed (pip install transformers)",
                      name="transformers")

_callbacks: Any = importlib.import_module("transformers.trainer_callback")

# What the Trainer measures with the clock: no two runs have it alike.
_CLOCK = ("_runtime", "_per_second", "_time", "_secs", "_memory")


class Recorder(_callbacks.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records what the Trainer logs, but for times: losses, gradients' norms and learning rates in the part "train",
    evaluations in that of their prefix ("eval", "test"). The fingerprint of the weights is that of the Trainer's model.

    One thread: the Trainer's.
    """

    def __init__(self, run: "record") -> None:
        self._run = run

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_others: Any) -> None:
        if model is not None and not self._run.steps:
            self._run.track(model)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_others: Any) -> None:
        self._run.epoch = math.floor(state.epoch or 0) + 1

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_others: Any) -> None:
        logs = logs or {}
        part = next((str(name).removesuffix("_runtime") for name in logs if str(name).endswith("_runtime")), "train")
        values = {name: float(value) for name, value in logs.items()
                  if isinstance(value, numbers.Real) and name != "epoch" and not str(name).endswith(_CLOCK)}
        if values:
            self._run.log(part, **values)
