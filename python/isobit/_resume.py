"""Going on with an interrupted record (docs/formats/run.md, "Resuming"): what it left, proven and cut back to its newest checkpoint.

Errors that a user can mend are RuntimeError.
"""

import hashlib
import json
import os
import secrets

from isobit import _provenance
from isobit._record_files import LOGS, digest, json_text, lock_description, write_file


# ---- locks


def holder(path):
    """Who holds the lock, as a text; None where nobody does, or nobody does any more."""
    try:
        lock = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    mine = lock_description()
    if (lock["host"], lock["machine"]) != (mine["host"], mine["machine"]):
        return f"process {lock['pid']} on {lock['host']}"
    if lock["boot"] != mine["boot"]:
        return None
    if lock["processes"] == mine["processes"] and lock_description(lock["pid"])["started"] != lock["started"]:
        return None
    return f"process {lock['pid']} on this machine"


def take_lock(path, content):
    """Puts our lock in the place of one whose holder is gone; of two that try, one goes on."""
    path.parent.mkdir(exist_ok=True)
    seen = path.read_bytes() if path.exists() else b""
    marker = path.with_name(f"{path.name}.{hashlib.sha256(seen).hexdigest()[:16]}")
    try:
        with open(marker, "xb") as file:
            file.write(content)
    except FileExistsError:
        raise RuntimeError(f"isobit.record: another process goes on with this run (if none does: delete {marker})") from None
    try:
        if holder(path) is not None or (path.read_bytes() if path.exists() else b"") != seen:
            raise RuntimeError(f"isobit.record: another process goes on with this run ({path})")
        temporary = path.with_name(f".tmp-{secrets.token_hex(4)}")
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        marker.unlink(missing_ok=True)


# ---- the record


def unfinished(runs, script, name):
    """The newest run of this script and name that was not finished, or None. RuntimeError where somebody writes it."""
    found = []
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


def same_program(folder, current):
    """The recorded sources; RuntimeError where one differs from the program that runs now."""
    recorded = json.loads((folder / "sources.json").read_bytes())["files"]
    for path, text in recorded.items():
        if current.get(path, text) != text:
            raise RuntimeError(f"isobit.record: {path} has changed since {folder.name} began, which can not be verified then: put it "
                               "back, or begin a new run (without resume)")
    return recorded


def cut_back(folder):
    """(state, newest sound checkpoint's line or None, the steps that were cut off). The caller holds the lock."""
    state = json.loads((folder / "state.json").read_bytes())
    for path, expected in state["inputs"].items():
        if digest((folder / path).read_bytes()) != expected:
            raise RuntimeError(f"isobit.record: {folder / path} is not what was recorded")
    kept, newest = b"", None
    for line in (folder / "checkpoints.jsonl").read_bytes().splitlines(keepends=True):
        try:
            entry = json.loads(line)
            sound = digest((folder / entry["file"]).read_bytes()) == {key: entry[key] for key in ("size", "sha256")}
        except FileNotFoundError:  # an older one
            sound = False
        except (ValueError, KeyError):
            break
        before = kept + line
        if sound and line.endswith(b"\n"):
            kept, newest = before, entry
        elif not line.endswith(b"\n"):
            break
        else:
            kept = before
    logs = newest["logs"] if newest else {}
    cut_off = []
    for log in LOGS[:-1]:
        content = (folder / log).read_bytes()
        expected = logs.get(log, digest(b""))
        if digest(content[:expected["size"]]) != expected:
            raise RuntimeError(f"isobit.record: {folder / log} is not what was recorded before the checkpoint")
        if log == "steps.jsonl":
            rest = content[expected["size"]:].splitlines(keepends=True)
            cut_off = [line.decode() for line in rest if line.endswith(b"\n")]
        write_file(folder / log, content[:expected["size"]])
    write_file(folder / "checkpoints.jsonl", kept)
    number = 2 + sum(path.startswith("environment-") for path in state["inputs"])
    environment = json_text(_provenance.environment()).encode()
    write_file(folder / f"environment-{number}.json", environment)
    state["inputs"][f"environment-{number}.json"] = digest(environment)
    state.update(state="running", reason="", steps=newest["step"] if newest else 0)
    return state, newest, cut_off
