"""What the loops need of the record that they are in: isobit.record has it."""

import pathlib
from typing import TYPE_CHECKING, Protocol

import torch

from isobit._jobs._job import Job

if TYPE_CHECKING:
    from isobit._loops._batches import Progress
    from isobit._loops._grains import Step


class Run(Protocol):
    """`run` in `with isobit.record(...) as run`."""

    epoch: int
    path: pathlib.Path
    _progress: "Progress"
    _job: Job | None  # the processes that this one trains with
    _state_agreed: str  # fingerprints of the last step that had some, until the workers of the job compared them
    _models: list[torch.nn.Module]
    _tracked: dict[str, torch.nn.Module]  # by name, as run.track was told; empty: what the program calls
    _batch: list[str]  # fingerprints of what entered models with gradients, since the last step
    _evaluated: list[str]  # and without gradients, since the last line
    _loss: int  # its bits
    _step: "Step | None"  # of a loop over run.steps

    def _require_grains(self) -> None:
        """RecordError where a loop over steps of grains cannot be recorded."""

    def _must_load(self) -> bool:
        """Whether the run is resumed, and the program has not called run.load yet."""

    def _loop_reached(self) -> None:
        """The loop that is resumed begins."""

    def _trace(self) -> dict[str, int]:
        """What a save would leave out if it changed after it."""
