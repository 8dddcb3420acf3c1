"""Which interrupted record a program resumes (docs/formats/run.md, "Resuming"), and whether it is still the same program.

What a user can mend is RecordError.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from isobit import _provenance
from isobit._errors import RecordError


def unfinished(runs: pathlib.Path, script: Mapping[str, Any], name: str) -> pathlib.Path | None:
    """The newest run of this script and name that was not finished, or None."""
    found: list[tuple[Any, pathlib.Path]] = []
    for folder in runs.iterdir() if runs.is_dir() else ():
        try:
            state = json.loads((folder / "state.json").read_bytes())
            recorded = _provenance.read_toml((folder / "experiment.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        same = all(recorded.get(key) == script.get(key) for key in ("file", "folder", "arguments"))
        if same and state.get("name") == name and not (folder / "manifest.json").exists():
            found.append((state["created"], folder))
    if not found:
        return None
    return max(found)[1]


def same_program(folder: pathlib.Path, current: Mapping[str, str]) -> dict[str, str]:
    """The recorded sources; RecordError where one differs from the program that runs now."""
    recorded: dict[str, str] = json.loads((folder / "sources.json").read_bytes())["files"]
    for path, text in recorded.items():
        if current.get(path, text) != text:
            raise RecordError(f"isobit.record: {path} has changed since {folder.name} began, which could then not be verified\n"
                              "  do     put it back, or begin a new run (without resume)")
    return recorded
