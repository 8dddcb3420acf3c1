"""A run's record as the library writes it (src/extension/records.h): folder, lock, logs, checkpoints, seal.

Errors of the file system are OSError, all others that a user can mend RecordError. One thread per object, and only in the
process that made it.
"""

import ctypes
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from isobit._base import _check_mode, _library
from isobit._base._errors import RecordError
from isobit._recording._fingerprint import has_values

AVAILABLE = hasattr(_library._library, "isobit_record_create")  # not where the library has only the operators

_TEXT, _COUNT, _POINTER = ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p
_TEXTS = ctypes.POINTER(_TEXT)


def _declare(name: str, *arguments: Any, result: Any = _TEXT, brief: bool = False) -> Callable[..., Any]:
    # Short ones keep the interpreter's lock, which is faster; those that wait for the disk let other threads run.
    return _library._declare(_library._brief if brief else _library._library, f"record_{name}", *arguments, result=result)


if AVAILABLE:
    _problem = _declare("problem", _TEXTS, result=ctypes.c_int, brief=True)
    _create = _declare("create", _TEXT, _TEXT, _TEXTS, _TEXTS, ctypes.POINTER(_COUNT), _COUNT, _TEXT, _TEXT,
                      ctypes.POINTER(_POINTER))
    _resume = _declare("resume", _TEXT, _TEXT, _TEXT, ctypes.POINTER(_POINTER))
    _id = _declare("id", _POINTER, brief=True)
    _folder = _declare("folder", _POINTER, brief=True)
    _checkpoint = _declare("checkpoint", _POINTER, ctypes.POINTER(_COUNT), brief=True)
    _size = _declare("size", _POINTER, _TEXT, result=_COUNT, brief=True)
    _step = _declare("step", _POINTER, _COUNT, _COUNT, ctypes.c_uint32, _TEXT, _TEXT, _TEXT, _TEXT, brief=True)
    _metrics = _declare("metrics", _POINTER, _COUNT, _COUNT, _TEXT, _TEXTS, ctypes.POINTER(ctypes.c_double), _COUNT, brief=True)
    _evaluation = _declare("evaluation", _POINTER, _COUNT, _COUNT, _COUNT, _TEXT, brief=True)
    _predictions = _declare("predictions", _POINTER, _COUNT, _COUNT, _TEXT, ctypes.POINTER(_COUNT), ctypes.POINTER(_COUNT),
                            _COUNT)
    _save = _declare("save", _POINTER, _TEXT, _COUNT, _TEXT, _COUNT)
    _part = _declare("part", _POINTER, _TEXT, _TEXT, _COUNT)
    _replace = _declare("replace", _POINTER, _TEXT, _TEXT, _COUNT)
    _outside = _declare("outside", _POINTER, _COUNT, _COUNT, _TEXT, _TEXT, brief=True)
    _finish = _declare("finish", _POINTER, _TEXT, _TEXT)
    _fail = _declare("fail", _POINTER, _TEXT, result=None)
    _close = _declare("close", _POINTER, result=None)
    _redacted = _declare("redacted", _TEXT, _TEXTS)
    _find = _declare("find", _TEXT, _TEXT, _TEXTS)
    _weights_sha256 = _declare("weights_sha256", _TEXTS, _TEXTS, ctypes.POINTER(_COUNT), ctypes.POINTER(_COUNT),
                               ctypes.POINTER(_POINTER), ctypes.POINTER(_COUNT), _COUNT, _TEXT)


def require() -> None:
    """RecordError where this process makes no records."""
    if _check_mode.CHILD_OF_CHECK in os.environ and not _check_mode.on:
        raise RecordError("isobit.record: this process was started within isobit check, and makes no record\n"
                          f"  do     unset {_check_mode.CHILD_OF_CHECK} where that is not so")
    if not AVAILABLE:
        raise RecordError("isobit.record: this build of isobit has only the operators\n"
                          "  do     build it without ISOBIT_EXTENSION_ONLY")


def _raise(message: bytes | None) -> None:
    if message is None:
        return
    location = _TEXT()
    code = _problem(ctypes.byref(location))
    text = os.fsdecode(message).replace("name another folder with --runs", "name another folder: isobit.record(\"folder\")")
    if code != 0:
        path = os.fsdecode(location.value or b"")
        raise OSError(code, text.removeprefix(f"{path}: "), path)
    raise RecordError(f"isobit.record: {text}")


def json_text(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def find_run(runs: str | os.PathLike[str], word: str) -> pathlib.Path:
    """The folder that `word` means: a path, "last", an id or the beginning of exactly one."""
    folder = _TEXT()
    _raise(_find(os.fsencode(runs), os.fsencode(word), ctypes.byref(folder)))
    return pathlib.Path(os.fsdecode(folder.value or b""))


# As the safetensors format spells them; what it has no word for counts as its bytes.
DTYPES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64",
          torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.float32: "F32", torch.float64: "F64", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fn: "F8_E4M3"}


def weights_sha256(named: Sequence[tuple[str, torch.Tensor]]) -> str:
    """What SHA-256 gives for safetensors.torch.save(dict(named)), any NaN being the one NaN (src/archive/weights_digest.h).

    Tensors of any device, strides and type; those that are no strided tensors, or have no memory (on "meta", wrappers), have no
    elements here.
    """
    if _check_mode.on:
        return ""
    plain = []
    for _, tensor in named:
        tensor = tensor.detach() if tensor.layout == torch.strided and has_values(tensor) else torch.zeros(0)
        tensor = tensor.resolve_conj().resolve_neg().cpu().contiguous()
        plain.append(tensor if tensor.dtype in DTYPES else tensor.reshape(-1).view(torch.uint8))
    texts, counts = _TEXT * len(plain), _COUNT * len(plain)
    extents = [extent for tensor in plain for extent in tensor.shape]
    dtypes = [DTYPES[tensor.dtype].encode() for tensor in plain]
    digits = ctypes.create_string_buffer(65)
    _raise(_weights_sha256(texts(*[name.encode() for name, _ in named]), texts(*dtypes),
                           counts(*[tensor.dim() for tensor in plain]), (_COUNT * len(extents))(*extents),
                           (_POINTER * len(plain))(*[tensor.data_ptr() for tensor in plain]),
                           counts(*[tensor.numel() * tensor.element_size() for tensor in plain]), len(plain), digits))
    return digits.value.decode()


def redacted(text: str) -> str:
    """With "(left out)" in the place of what looks like a secret, by the rules of isobit export."""
    if _check_mode.on:  # nothing is written
        return "(left out)"
    result = _TEXT()
    _raise(_redacted(os.fsencode(text), ctypes.byref(result)))
    return os.fsdecode(result.value or b"")


class RunFolder:
    """Writes a run's record. Ends with finish() or fail()."""

    id: str
    path: pathlib.Path
    _record: ctypes.c_void_p | None  # None once it has ended

    def __init__(self, runs: str | os.PathLike[str], name: str, files: Mapping[str, bytes],
                 contract: str = _library.contract_version, ending: str = "") -> None:
        """files: experiment.toml, environment.json and data.json among them. contract: what computes, or "stock-<version>".
        ending: in the place of the id's random digits."""
        texts = _TEXT * len(files)
        self._open(_create, os.fsencode(runs), name.encode(), texts(*map(str.encode, files)), texts(*files.values()),
                   (_COUNT * len(files))(*map(len, files.values())), len(files), contract.encode(), ending.encode())

    @classmethod
    def resume(cls, path: str | os.PathLike[str], environment: bytes,
               contract: str = _library.contract_version) -> "RunFolder":
        """An interrupted one, cut back to its newest sound checkpoint; environment: that of this process.

        What is cut off stays aside until the next checkpoint or the end."""
        run = cls.__new__(cls)
        run._open(_resume, os.fsencode(path), environment, contract.encode())
        return run

    def _open(self, call: Callable[..., Any], *arguments: Any) -> None:
        self._record = record = _POINTER()
        _raise(call(*arguments, ctypes.byref(record)))
        self.id, self.path = _id(record).decode(), pathlib.Path(os.fsdecode(_folder(record)))

    def checkpoint(self) -> tuple[pathlib.Path, int] | None:
        """(file, step) that an interrupted run resumes from: the newest that is sound; None where it begins."""
        step = _COUNT()
        file = _checkpoint(self._record, ctypes.byref(step))
        return None if file is None else (self.path / os.fsdecode(file), step.value)

    def require_readable(self, checkpoint: pathlib.Path) -> None:
        """RecordError where it is not the file that the record names; of its own process', it is."""

    def size(self, log: str) -> int:
        return int(_size(self._record, log.encode()))

    def step(self, step: int, epoch: int, loss: int, batch: str, weights: str = "", optimizer: str = "",
             gradients: str = "") -> None:
        """loss: its bits. RecordError where the step was recorded before, and otherwise."""
        _raise(_step(self._record, step, epoch, loss, batch.encode(), gradients.encode(), weights.encode(),
                     optimizer.encode()))

    def metrics(self, step: int, epoch: int, part: str, values: Mapping[str, float]) -> None:
        _raise(_metrics(self._record, step, epoch, part.encode(), (_TEXT * len(values))(*map(str.encode, values)),
                        (ctypes.c_double * len(values))(*values.values()), len(values)))

    def evaluation(self, step: int, epoch: int, tensors: int, batches: str) -> None:
        _raise(_evaluation(self._record, step, epoch, tensors, batches.encode()))

    def predictions(self, step: int, epoch: int, part: str, classes: Sequence[int], targets: Sequence[int]) -> None:
        """Of a record whose experiment.toml says that it keeps them."""
        numbers = _COUNT * len(classes)
        _raise(_predictions(self._record, step, epoch, part.encode(), numbers(*classes), numbers(*targets), len(classes)))

    def outside(self, after: int, until: int, place: str, call: str) -> None:
        """A stretch in which the switch was off: it began after step `after` and ended when `until` were done."""
        _raise(_outside(self._record, after, until, place.encode(), call.encode()))

    def save(self, content: bytes, sha256: str, segments: int) -> None:
        """A checkpoint after the step last recorded; it stays with the one before it, and those that `segments` needs
        (src/extension/records.h). sha256: of the weights."""
        _raise(_save(self._record, content, len(content), sha256.encode(), segments))

    def part(self, name: str, content: bytes) -> None:
        """part-NAME.json, sealed with the record; a second one of that name takes its place."""
        _raise(_part(self._record, name.encode(), content, len(content)))

    def replace(self, name: str, content: bytes) -> None:
        _raise(_replace(self._record, name.encode(), content, len(content)))

    def finish(self, weights: str, sha256: str) -> None:
        try:
            _raise(_finish(self._record, weights.encode(), sha256.encode()))
        finally:
            self._close()

    def fail(self, reason: str) -> None:
        """Says so where it can; where the disk is full, the run stays one that was interrupted."""
        _fail(self._record, redacted(reason).encode(errors="replace"))
        self._close()

    def _close(self) -> None:
        record, self._record = self._record, None
        _close(record)


class NoFolder(RunFolder):
    """In the place of a run's folder within isobit check: nothing is written. Its path is an empty folder that goes with it."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="isobit-check-")
        self.id, self.path = "not-recorded", pathlib.Path(self._temporary.name)

    def checkpoint(self) -> tuple[pathlib.Path, int] | None:
        return None

    def size(self, log: str) -> int:
        return 0

    def step(self, step: int, epoch: int, loss: int, batch: str, weights: str = "", optimizer: str = "",
             gradients: str = "") -> None:
        pass

    def metrics(self, step: int, epoch: int, part: str, values: Mapping[str, float]) -> None:
        pass

    def evaluation(self, step: int, epoch: int, tensors: int, batches: str) -> None:
        pass

    def predictions(self, step: int, epoch: int, part: str, classes: Sequence[int], targets: Sequence[int]) -> None:
        pass

    def outside(self, after: int, until: int, place: str, call: str) -> None:
        pass

    def save(self, content: bytes, sha256: str, segments: int) -> None:
        pass

    def part(self, name: str, content: bytes) -> None:
        pass

    def replace(self, name: str, content: bytes) -> None:
        pass

    def finish(self, weights: str, sha256: str) -> None:
        self._temporary.cleanup()

    def fail(self, reason: str) -> None:
        self._temporary.cleanup()
