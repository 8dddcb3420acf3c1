"""Lightning's metrics, epochs and learning rates in a record: a callback for its Trainer.

    with isobit.record("runs/") as run:
        lightning.Trainer(callbacks=[isobit.lightning.Recorder(run)]).fit(module, loader, validation)

Needs the package lightning (or pytorch_lightning), which is not a requirement of isobit.
"""

import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isobit._recording._record import record

_package = next((name for name in ("lightning", "pytorch_lightning") if importlib.util.find_spec(name) is not None), None)
if _package is None:
    raise ImportError("isobit.lightning needs Lightning, which is not installed (pip install lightning)", name="lightning")

_library: Any = importlib.import_module("lightning.pytorch" if _package == "lightning" else _package)


class Recorder(_library.Callback):  # type: ignore[misc, unused-ignore]
    """Records what a LightningModule logs for whole epochs, and the learning rate of each optimizer's last step.

    Parts are "train", "val" and "test". The fingerprint of the weights is that of the LightningModule. Values that Lightning
    computes from the clock are not among its metrics. One thread: the Trainer's.
    """

    def __init__(self, run: "record") -> None:
        super().__init__()
        self._run = run
        self._before: set[str] = set()  # names of metrics when the validation began
        self._validated: set[str] = set()  # names that came with a validation
        self._rates: dict[int, list[float]] = {}  # by the optimizer's position

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if not self._run.steps:
            self._run.track(pl_module)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._run.epoch = trainer.current_epoch + 1

    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        position = next((i for i, known in enumerate(trainer.optimizers) if getattr(known, "optimizer", known) is optimizer
                         or known is optimizer), 0)
        self._rates[position] = [float(group["lr"]) for group in optimizer.param_groups]

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        self._before = set(trainer.callback_metrics)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        metrics = _numbers(trainer.callback_metrics)  # of the training, too
        self._validated |= metrics.keys() - self._before
        self._log("val", {name: value for name, value in metrics.items() if name in self._validated})

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        metrics = _numbers(trainer.callback_metrics)
        values = {name: value for name, value in metrics.items() if name not in self._validated}
        self._log("train", {**values, **self._learning_rates()})

    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        self._log("test", _numbers(trainer.callback_metrics))

    def _learning_rates(self) -> dict[str, float]:
        several = len(self._rates) > 1
        return {"lr" + (f"/{position}" if several else "") + (f"/group{group}" if len(rates) > 1 else ""): rate
                for position, rates in sorted(self._rates.items()) for group, rate in enumerate(rates)}

    def _log(self, part: str, values: dict[str, float]) -> None:
        if values:
            self._run.log(part, **values)


def _numbers(metrics: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in metrics.items()}
