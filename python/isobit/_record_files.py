"""A run's folder on disk, as `docs/formats/run.md` says: written so that any moment may be the last, sealed, read back.

Errors of the file system are OSError; a record that is not what was sealed is DamagedRecord. One thread per object.
"""

import contextlib
import datetime
import difflib
import hashlib
import json
import math
import os
import pathlib
import re
import secrets
import shutil
import socket

from isobit._problem import of_the_system

RUN_FORMAT, MANIFEST_FORMAT = "isobit-run-1", "isobit-manifest-1"
LOGS = ("steps.jsonl", "metrics.jsonl", "evaluations.jsonl", "timings.jsonl", "checkpoints.jsonl")


class DamagedRecord(Exception):
    """The record is not what was sealed, or not sealed at all."""


def digest(content):
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def digest_file(path):
    """Of a file that may be large."""
    sha, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha.update(piece)
            size += len(piece)
    return {"size": size, "sha256": sha.hexdigest()}


def write_file(path, content):
    """Whole or not at all, also after a power failure."""
    temporary = path.with_name(f".tmp-{secrets.token_hex(4)}")
    with of_the_system(path, "can not be written"):
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def _sync_folder(path):
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def json_text(value):
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def number(value):
    """binary64 as the C++ program spells it: infinities and NaN are texts."""
    value = float(value)
    if math.isnan(value) or math.isinf(value):
        return json.dumps("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
    text = repr(value)
    if 1e15 <= abs(value) < 1e16:  # repr changes to an exponent one digit later
        digits = text.removesuffix(".0").lstrip("-").rstrip("0")
        text = ("-" if value < 0 else "") + digits[0] + ("." + digits[1:] if digits[1:] else "") + "e+15"
    return text


def line_of(pairs):
    """One JSON object without blanks; the values are JSON already."""
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}\n"


def lock_description(pid=None):
    """What a lock says of a process of this machine, this one unless named."""
    return {"host": socket.gethostname(), "machine": _first_line("/etc/machine-id"),
            "boot": _first_line("/proc/sys/kernel/random/boot_id"), "processes": _namespace(), "pid": pid or os.getpid(),
            "started": _start_of(pid or os.getpid()), "token": secrets.token_hex(8)}


class Lock:
    """Who writes the run now: RUNS/.locks/<id>, in the C++ program's form.

    take: called with path and content where the lock of a process that is gone may lie there; else nobody has the id.
    """

    def __init__(self, runs, run_id, take=None):
        folder = runs / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / run_id
        self._content = json_text(lock_description()).encode()
        if take is not None:
            take(self._path, self._content)
            return
        try:
            with open(self._path, "xb") as file:
                file.write(self._content)
        except OSError:
            with contextlib.suppress(OSError):
                self._path.unlink()
            raise

    def release(self):
        try:
            if self._path.read_bytes() == self._content:
                self._path.unlink()
        except OSError:  # gone, or on a file system that became read-only: its process is gone soon
            pass


def _first_line(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return ""


def _namespace():
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start_of(pid):
    fields = _first_line(f"/proc/{pid}/stat").rpartition(")")[2].split()  # from field 3 on; field 22 is the start
    return fields[19] if len(fields) > 19 else ""


class RunFolder:
    """Writes a run's record."""

    @classmethod
    def resume(cls, path, take_lock, cut_back):
        """An interrupted one: (folder, newest checkpoint's line, cut-off steps). What it is given: _resume.py."""
        run = cls.__new__(cls)
        run.id, run.path = path.name, path
        run._lock = Lock(path.parent, path.name, take_lock)
        run._logs = {}
        try:
            run._state, newest, cut_off = cut_back(path)
            run._say()
        except BaseException:
            run._lock.release()
            raise
        run._open_logs()
        return run, newest, cut_off

    def __init__(self, runs, name, contract, files):
        """files: name -> bytes; experiment.toml, environment.json and data.json among them."""
        now = datetime.datetime.now(datetime.timezone.utc)
        self.id = f"{now:%Y%m%d-%H%M%S}-{name}-{secrets.token_hex(4)}"
        self._state = {"format": RUN_FORMAT, "id": self.id, "name": name, "contract": contract,
                       "created": f"{now:%Y-%m-%dT%H:%M:%S.%f}Z", "state": "running", "steps": 0, "weights": "",
                       "reason": "", "inputs": {path: digest(files[path]) for path in sorted(files)}}
        runs = pathlib.Path(runs)
        self.path, self._logs = runs / self.id, {}
        with of_the_system(runs, "no record can be made there"):
            runs.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(runs, self.id)
        hidden = runs / f".tmp-{self.id}"
        try:
            with of_the_system(runs, "no record can be made there"):
                hidden.mkdir()
            for path, content in files.items():
                write_file(hidden / path, content)
            for log in LOGS:
                write_file(hidden / log, b"")
            write_file(hidden / "state.json", json_text(self._state).encode())
            os.rename(hidden, self.path)
            _sync_folder(runs)
            self._open_logs()
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            self._lock.release()
            raise

    def _open_logs(self):
        self._logs = {log: os.open(self.path / log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                      for log in LOGS if log != "timings.jsonl"}
        self._written = {}  # log -> [size, digest so far]: a save need not read them again
        for log in LOGS:
            content = (self.path / log).read_bytes()
            self._written[log] = [len(content), hashlib.sha256(content)]

    def size(self, log):
        return self._written[log][0]

    def checkpoint(self, step, content):
        """Writes checkpoints/step-<step>.pt and its line, as the C++ program spells it; older ones go."""
        for log in self._logs.values():
            os.fsync(log)
        (self.path / "checkpoints").mkdir(exist_ok=True)
        file = f"checkpoints/step-{step}.pt"
        write_file(self.path / file, content)
        logs = ",".join(f'"{log}":{_digest_text({"size": self.size(log), "sha256": self._written[log][1].hexdigest()})}'
                        for log in sorted(LOGS[:-1]))
        written = digest(content)
        self.append("checkpoints.jsonl", line_of([("step", step), ("file", f'"{file}"'), ("size", written["size"]),
                                                  ("sha256", f'"{written["sha256"]}"'), ("logs", "{" + logs + "}")]))
        os.fsync(self._logs["checkpoints.jsonl"])
        for old in (self.path / "checkpoints").iterdir():
            if old.name != f"step-{step}.pt":
                old.unlink()

    def append(self, log, line):
        """One write for a line, so that it survives the process; a part of one is cut off again."""
        content = line.encode()
        before = os.fstat(self._logs[log]).st_size
        written = 0
        try:
            with of_the_system(self.path / log, "can not be written"):
                while written < len(content):  # a full disk takes a part, then says so
                    written += os.write(self._logs[log], content[written:])
        except OSError:
            os.ftruncate(self._logs[log], before)
            raise
        self._written[log][0] += len(content)
        self._written[log][1].update(content)

    def replace(self, name, content):
        write_file(self.path / name, content)
        self._state["inputs"][name] = digest(content)
        self._say()

    def finish(self, steps, weights):
        try:
            self._close_logs()
            self._say(state="finished", steps=steps, weights=weights)
            for left in self.path.rglob(".tmp-*"):
                left.unlink()
            files = {str(path.relative_to(self.path)): digest_file(path) for path in self.path.rglob("*") if not path.is_dir()}
            write_file(self.path / "manifest.json", manifest_text(self.id, files).encode())
        finally:
            self._lock.release()

    def fail(self, steps, reason):
        """Says so where it can; where the disk is full, the run stays one that was interrupted."""
        try:
            self._close_logs()
            self._say(state="failed", steps=steps, reason=reason)
        except OSError:
            pass
        finally:
            self._lock.release()

    def _say(self, **changes):
        self._state.update(changes)
        write_file(self.path / "state.json", json_text(self._state).encode())

    def _close_logs(self):
        for file in self._logs.values():
            os.fsync(file)
            os.close(file)
        self._logs = {}


def _digest_text(value):
    return f'{{"size":{value["size"]},"sha256":"{value["sha256"]}"}}'


def manifest_text(run_id, files):
    rows = ",\n".join(f'    {{"path": {json.dumps(path, ensure_ascii=False)}, "size": {files[path]["size"]}, '
                      f'"sha256": "{files[path]["sha256"]}"}}' for path in sorted(files, key=str.encode))
    text = (f'{{\n  "format": "{MANIFEST_FORMAT}",\n  "run": {json.dumps(run_id, ensure_ascii=False)},\n  "files": [\n'
            f"{rows}\n  ],\n")
    return text + f'  "digest": "{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'


def read_record(folder, checkpoints=True):
    """name -> bytes of a sealed record's files; DamagedRecord unless every byte is what was sealed.

    checkpoints=False: they are proven, but not read into memory; the answer is (name -> bytes, name -> digest of every file).
    """
    folder = pathlib.Path(folder)
    try:
        text = (folder / "manifest.json").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedRecord(f"{folder}: not finished, or no run's folder") from None
    except UnicodeDecodeError:
        raise DamagedRecord(f"{folder / 'manifest.json'}: no manifest of a run") from None
    try:
        manifest = json.loads(text)
        expected = {row["path"]: {"size": row["size"], "sha256": row["sha256"]} for row in manifest["files"]}
        run_id = manifest["run"]
    except (ValueError, KeyError, TypeError):
        raise DamagedRecord(f"{folder / 'manifest.json'}: no manifest of a run") from None
    if manifest_text(run_id, expected) != text:
        raise DamagedRecord(f"{folder / 'manifest.json'}: does not agree with its own digest")
    present = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()} - {"manifest.json"}
    if present != set(expected):
        raise DamagedRecord(f"{folder}: missing or added: {', '.join(sorted(present ^ set(expected)))}")
    contents = {path: (folder / path).read_bytes() for path in expected if checkpoints or not path.startswith("checkpoints/")}
    for path in expected:
        if (digest(contents[path]) if path in contents else digest_file(folder / path)) != expected[path]:
            raise DamagedRecord(f"{folder / path}: other content than recorded (restore the run's folder from a copy)")
    return contents if checkpoints else (contents, expected)


def find_run(runs, word):
    """The folder that `word` means: a path, "last", an id or the beginning of exactly one."""
    if "/" in word or word in (".", ".."):
        if not pathlib.Path(word, "state.json").exists():
            raise DamagedRecord(f"{word}: no run's folder")
        return pathlib.Path(word)
    runs = pathlib.Path(runs or os.environ.get("ISOBIT_RUNS") or "runs")
    ids = sorted(path.name for path in runs.iterdir() if re.match(r"\d{8}-\d{6}-", path.name)) if runs.is_dir() else []
    fitting = ids[-1:] if word == "last" else [name for name in ids if name == word] or [name for name in ids if name.startswith(word)]
    if len(fitting) == 1:
        return runs / fitting[0]
    if len(fitting) > 1:
        raise DamagedRecord(f"{word}: {len(fitting)} runs in {runs} begin so (give more of the id)")
    near = difflib.get_close_matches(word, [*ids, "last"], 1) or ids[-1:]
    raise DamagedRecord(f"{word}: no such run in {runs} (" +
                        (f"did you mean '{near[0]}'?" if near else "isobit.record makes one; --runs names another folder") + ")")
