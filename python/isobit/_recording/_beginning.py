"""With what a record begins: the run's name, the files that are written first, the interrupted run that it resumes."""

import pathlib
import re
from collections.abc import Mapping
from typing import Any

from isobit._base import _library
from isobit._base._errors import RecordError
from isobit._jobs import _job
from isobit._recording import _provenance, _resume
from isobit._recording._record_files import find_run, json_text


def run_name(given: str | None, script: Mapping[str, Any]) -> str:
    """As given, else the script's, in characters that folders have."""
    name = given or pathlib.Path(script["file"]).stem or "python"
    return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".")[:64] or "python"


def settings(every: int, stock: bool, predictions: bool, gradients: int) -> dict[str, Any]:
    """What [script] of experiment.toml says of isobit.record's arguments and of what computes, in its order."""
    found: dict[str, Any] = {"fingerprint_every": every}
    if stock:
        found["arithmetic"] = "stock"
    elif _library.products() != "ordered":
        found["products"] = _library.products()
    if (processes := _job.processes()) > 1:
        found["processes"] = processes
    if predictions:
        found["predictions"] = True
    if gradients:
        found["fingerprint_gradients"] = gradients
    return found


def first_files(script: dict[str, Any], sources: bytes, patch: bytes | None, stock: bool) -> dict[str, bytes]:
    """By name. patch: what differs from the commit."""
    files = {
        "experiment.toml": _provenance.toml("script", script, "A Python program under isobit.record.").encode(),
        "environment.json": environment(stock),
        "data.json": json_text({"format": "isobit-data-1", "files": [], "note": "steps.jsonl has what the model saw"}).encode(),
        "sources.json": sources}
    return files if patch is None else {**files, "dirty.patch": patch}


def environment(stock: bool) -> bytes:
    return json_text(_provenance.environment(stock)).encode()


def sources(root: pathlib.Path | None, recorded: Mapping[str, str]) -> bytes:
    """What is imported by now from below `root`, with what the run that is resumed had recorded."""
    files = {**recorded, **(_provenance.local_sources(root) if root else {})}
    return json_text({"format": "isobit-sources-1", "files": dict(sorted(files.items()))}).encode()


def run_to_resume(asked: bool | str, runs: pathlib.Path, program: _resume.Program) -> pathlib.Path | None:
    """asked: as isobit.record's `resume`. The interrupted run's folder, or None where a new one begins."""
    if asked is True or asked == "strict":
        return _resume.choose(runs, program, strict=asked == "strict")
    folder = find_run(runs, str(asked))
    if (folder / "manifest.json").exists():
        raise RecordError(f"isobit.record: {folder} is finished: there is nothing to resume")
    changed = _resume.what_changed(folder, program)
    if changed is not None:
        raise _resume.refused(changed)
    return folder
