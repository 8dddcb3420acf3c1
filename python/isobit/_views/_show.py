"""Recorded runs in a notebook, and their numbers as columns. Reads records through the package's program; needs no torch."""

import html
import importlib
import json
import os
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

from isobit._base._errors import RecordError
from isobit._base._package import PROGRAM

_NAME = "isobit._show"  # of this module in what is public: as _old_names.py has it
_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_REAL_COLUMNS = ("loss", "value", "seconds")
_WHOLE_COLUMNS = ("step", "epoch", "size", "samples", "tensors", "after", "until")


class Page:
    """What `isobit report` writes, to be shown by a notebook or saved."""

    __module__ = _NAME

    def __init__(self, text: str, height: int) -> None:
        self.text = text
        self.height = height

    def _repr_html_(self) -> str:
        # A frame of its own: neither its style nor its scripts meet the notebook's. Sandboxed: an origin of its own, too.
        return (f'<iframe title="isobit report" sandbox="allow-scripts" width="100%" height="{self.height}" '
                f'style="border: 0" srcdoc="{html.escape(self.text, quote=True)}"></iframe>')

    def save(self, path: "str | os.PathLike[str]") -> pathlib.Path:
        """Writes the page to a file that works by itself."""
        file = pathlib.Path(path)
        file.write_text(self.text, encoding="utf-8")
        return file

    def __repr__(self) -> str:
        return f"<isobit report, {len(self.text)} characters>"


def _call(words: Sequence[str]) -> str:
    try:
        done = subprocess.run([PROGRAM, *words], capture_output=True, check=False)
    except OSError as error:
        raise RecordError(f"isobit: {PROGRAM}: {(error.strerror or '').lower()} (this build has only the operators, or its "
                          "installation is incomplete: install isobit again)") from None
    if done.returncode != 0:
        raise RecordError(done.stderr.decode(errors="replace").strip())
    return done.stdout.decode()


def _word(run: object) -> str:
    """A run as the program wants it: a folder, an id, "last", or what isobit.record gave."""
    word = getattr(run, "path", run)  # a Path has no `path`, a record has
    if isinstance(word, os.PathLike):
        word = os.fspath(word)
    if not isinstance(word, str) or word.startswith("-"):
        raise RecordError(f"isobit: {word!r}: is no run (name its folder, its id, or 'last')")
    return word


def _archive(runs: "str | os.PathLike[str] | None") -> list[str]:
    return [] if runs is None else ["--runs", os.fspath(runs)]


def show(*run: object, runs: "str | os.PathLike[str] | None" = None, diff: "str | os.PathLike[str] | None" = None,
         drift: "str | os.PathLike[str] | None" = None, title: str = "", height: int = 760, redact: bool = True) -> Page:
    """The figures of one or more runs ("last" where none is named) or of a study, inline in a notebook.

        isobit.show("last")
        isobit.show(first, second, diff="diff.json").save("comparison.html")

    `runs` names the archive; `diff` and `drift` are files that `isobit diff --json` and `isobit drift --json` wrote.
    What looks like a secret is left out, unless `redact` is False: then it is an error.
    """
    words = [_word(item) for item in run] or ["last"]
    for name, file in (("--diff", diff), ("--drift", drift)):
        if file is not None:
            words += [name, os.fspath(file)]
    if title:
        words += [f"--title={title}"]
    return Page(_call(["report", *words, *_archive(runs), *(["--redact"] if redact else []), "--out", "-"]), height)


class Table(dict[str, list[Any]]):
    """Columns of one length, by name."""

    __module__ = _NAME
    name = ""

    def to_parquet(self, path: "str | os.PathLike[str]") -> pathlib.Path:
        """Writes the table as a Parquet file, whole or not at all. RecordError without pyarrow, OSError from the file system."""
        arrow, parquet = _pyarrow()
        types = {**dict.fromkeys(_REAL_COLUMNS, arrow.float64()), **dict.fromkeys(_WHOLE_COLUMNS, arrow.int64())}
        if self.name == "settings":
            types = {}  # values as TOML spells them
        schema = arrow.schema([(column, types.get(column, arrow.string())) for column in self],
                              metadata={"isobit.table": self.name})
        file = pathlib.Path(path)
        part = file.with_name(f".{file.name}.{os.getpid()}.part")
        try:
            parquet.write_table(arrow.table(dict(self), schema=schema), part)
            part.replace(file)
        except arrow.ArrowException as error:  # data.json is its author's claim
            raise RecordError(f"isobit: the table '{self.name}' cannot be written as Parquet: {error}") from None
        finally:
            part.unlink(missing_ok=True)
        return file


class Tables(dict[str, Table]):
    """A run's tables, by name. `claimed`: what of them isobit verify cannot recompute, as docs/formats/tables.md says."""

    __module__ = _NAME
    claimed: list[str]

    def to_parquet(self, folder: "str | os.PathLike[str]") -> list[pathlib.Path]:
        """Writes each table to FOLDER/NAME.parquet; the folder is made where it is missing."""
        _pyarrow()
        into = pathlib.Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        return [table.to_parquet(into / f"{name}.parquet") for name, table in self.items()]


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RecordError(f"isobit: to_parquet needs pyarrow, which does not load: {error}\n"
                          "  do     pip install pyarrow, or write CSV: isobit export RUN --to csv DIR") from None


def tables(run: object = "last", *, runs: "str | os.PathLike[str] | None" = None) -> Tables:
    """A finished run's logs as columns: tables(run)["steps"]["loss"] is a list with an element per step.

    tables(run)["steps"].to_parquet("steps.parquet") writes one as Parquet, with pyarrow. docs/formats/tables.md lists tables
    and columns.
    """
    answer = json.loads(_call(["show", _word(run), "--tables", *_archive(runs)]))
    found = Tables({name: Table(columns) for name, columns in answer["tables"].items()})
    found.claimed = answer["claimed"]
    for table, columns in found.items():
        columns.name = table
        for name in _REAL_COLUMNS:
            if name in columns and table != "settings":
                columns[name] = [_NUMBERS.get(value, value) if isinstance(value, str) else value for value in columns[name]]
    return found


show.__module__ = tables.__module__ = _NAME
