"""Names in a record's log, and what `record` objects show of themselves."""

import html
import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

import torch

# Of parts and of values. No quotes, no control characters: names stand in tables and in terminals.
_PART = re.compile("[a-z0-9][a-z0-9-]{0,31}")
_NAME = re.compile(r"[A-Za-z0-9_./:@%+=()\[\]#-]([A-Za-z0-9_./:@%+=()\[\]# -]{0,98}[A-Za-z0-9_./:@%+=()\[\]#-])?")
ALLOWED = "1 to 100 ASCII letters, digits and _ . - / : @ % + = ( ) [ ] #, with spaces between"


def check_name(name: object) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(f"run.log: {name!r} cannot be a name in a record\n  do     use {ALLOWED}")


def part_text(name: object, value: object) -> str:
    """JSON of a part. ValueError for a name that cannot be one, and for what is no JSON object with a format."""
    if not isinstance(name, str) or _PART.fullmatch(name) is None:
        raise ValueError(f"run.part: {name!r} cannot be a part's name\n  do     use 1 to 32 of the characters a-z, 0-9 and -")
    if not isinstance(value, dict) or not isinstance(value.get("format"), str):
        raise ValueError(f"run.part: {name} is no dict with a text \"format\": who reads it must know what it is\n"
                         f"  do     run.part({name!r}, {{\"format\": \"{name}-1\", ...}})")
    try:
        text = json.dumps(value, allow_nan=False, indent=2, ensure_ascii=False)
        text.encode()
        same = json.loads(text) == value
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"run.part: {name} cannot be written as JSON: {error}\n"
                         "  do     give dicts, lists, texts, finite numbers, True, False and None") from None
    if not same:
        raise ValueError(f"run.part: {name} would be another when it is read as JSON\n"
                         "  do     give texts as keys, and lists instead of tuples")
    return text + "\n"


def plain_values(values: Mapping[str, Any]) -> dict[str, float]:
    """ValueError for a name that cannot be one, and for what is no number."""
    plain = {}
    for name, value in values.items():
        check_name(name)
        number = value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        if isinstance(value, torch.Tensor) and value.numel() != 1:
            raise ValueError(f"run.log: {name} has shape {list(value.shape)}: give one number, or a name to each")
        if not isinstance(number, numbers.Real) and not hasattr(number, "__float__"):
            raise ValueError(f"run.log: {name}={number!r} is not a number")
        plain[name] = float(number)
    return plain


MOST_PREDICTIONS = 1_000_000  # of a line: kMostPredictions in src/archive/log_lines.h


def plain_predictions(classes: Any, targets: Any) -> tuple[list[int], list[int]]:
    said, own = _plain_classes("classes", classes), _plain_classes("targets", targets)
    if len(said) != len(own):
        raise ValueError(f"run.predictions: {len(said)} classes for {len(own)} targets")
    return said, own


def _plain_classes(what: str, classes: Any) -> list[int]:
    """A tensor, array or sequence of class indices as whole numbers; ValueError for anything else."""
    if not isinstance(classes, torch.Tensor):
        classes = torch.as_tensor(classes)
    if classes.dim() != 1 or classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise ValueError(f"run.predictions: {what} has shape {list(classes.shape)} and type {classes.dtype}\n"
                         "  do     give one class per sample, a whole number: scores.argmax(1)")
    plain: list[int] = classes.tolist()
    if not 1 <= len(plain) <= MOST_PREDICTIONS or min(plain) < 0:
        raise ValueError(f"run.predictions: {what} has {len(plain)} classes, of which the lowest is {min(plain, default=None)}\n"
                         f"  do     give 1 to {MOST_PREDICTIONS}, each 0 or more")
    return plain


def facts(run: Any) -> dict[str, str]:
    """Of a record: what its repr shows, in words."""
    shown = {"run": run.id or "none yet", "state": run._state, "steps": str(run.steps), "epoch": str(run.epoch)}
    if run.path is not None:
        shown["folder"] = str(run.path)
    if run._final is not None:
        shown["weights"] = run._final
    return shown


def as_text(run: Any) -> str:
    return "<isobit.record " + ", ".join(f"{name} {value}" for name, value in facts(run).items()) + ">"


def as_html(run: Any) -> str:
    rows = "".join(f"<tr><th>{name}</th><td><code>{html.escape(value)}</code></td></tr>" for name, value in facts(run).items())
    return f"<table><caption>isobit.record</caption>{rows}</table>"
