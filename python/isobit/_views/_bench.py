"""python -m isobit bench SCRIPT: a script's steps, stock PyTorch and isobit in turns, and where the time of each goes.

Each turn is a process of its own, which ends after so many steps. Nothing is recorded (_bench_side.py).
"""

import argparse
import json
import operator
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from isobit._base._arguments import CommandParser, complain
from isobit._views._script import parsed

BETWEEN = "between operators"
SIDES = ("stock", "isobit")
QUIET = 0.05  # of the time without a core: less needs no note (src/bench/core_wait.cpp)
PROFILED = 3  # steps under the profiler, after the timed ones
OF_THE_PROGRAM = ("ops", "step", "profile", "memory", "recording")  # `isobit bench WHAT`, which times models of its own


class _Failed(Exception):
    """A side that gave no figures: what to print."""


def is_of_a_script(words: Sequence[str]) -> bool:
    """Whether `bench` with these words times a script: one stands before any of the words that the program knows."""
    for word in words:
        if word in OF_THE_PROGRAM:
            return False
        if word.endswith(".py") or (not word.startswith("-") and pathlib.Path(word).is_file()):
            return True
    return False


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m isobit bench", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Times the first steps of a training script under stock PyTorch and under isobit, in turns, each in its own "
                    "process,\nand lists where the time goes. The script needs no line of isobit's. Nothing is recorded.",
        epilog="exit code: 0 measured, 2 the script cannot be measured\n\n"
               "example:\n  python -m isobit bench train.py --batch 32\n  python -m isobit bench --steps 50 --threads 4 train.py")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="timed optimizer steps of each turn (20)")
    parser.add_argument("--warm-up", type=int, default=3, metavar="N", help="steps before them (3)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each side (5)")
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="threads of both (PyTorch's default)")
    parser.add_argument("--operators", type=int, default=15, metavar="N", help="operators to list, the slowest under isobit (15)")
    parser.add_argument("--json", action="store_true", help="all figures as JSON on stdout")
    return parsed(parser, words, {"steps": 1, "warm_up": 1, "rounds": 1, "threads": 0, "operators": 0})


def _turn(options: argparse.Namespace, side: str, folder: pathlib.Path) -> dict[str, Any]:
    result = folder / "figures.json"
    result.unlink(missing_ok=True)
    asked = {"side": side, "script": options.script, "arguments": options.arguments, "threads": options.threads,
             "warm_up": options.warm_up, "steps": options.steps, "profiled": PROFILED, "result": str(result)}
    environment = dict(os.environ)
    if options.threads:
        environment["OMP_NUM_THREADS"] = str(options.threads)
    with (folder / "output").open("wb+") as output:
        code = subprocess.call([sys.executable, "-m", "isobit._views._bench_side", json.dumps(asked)], stdout=output,
                               stderr=output, stdin=subprocess.DEVNULL, env=environment)
        output.seek(0)
        said = output.read().decode(errors="replace").splitlines()[-12:]
    if code != 0 or not result.exists():
        raise _Failed("\n".join([f"{options.script}: the script failed under {side} (exit code {code}); it said last:",
                                 *(f"  {line}" for line in said)]))
    figures: dict[str, Any] = json.loads(result.read_text())
    if not figures["enough"]:
        needed = options.warm_up + options.steps + PROFILED
        raise _Failed(f"{options.script}: the script made {figures['steps']} optimizer steps; {options.warm_up} of warm-up, "
                      f"{options.steps} timed and {PROFILED} for the operators are {needed}\n"
                      "  do     ask for fewer (--steps, --warm-up), or give the script arguments with which it makes more")
    return figures


def _measure(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    turns: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="isobit-bench-") as folder:
        for number in range(options.rounds):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                if sys.stderr.isatty():
                    print(f"\risobit: round {number + 1} of {options.rounds}, {side:<6}", end="", file=sys.stderr, flush=True)
                turns[side].append(_turn(options, side, pathlib.Path(folder)))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return turns


def _spread(values: Sequence[float]) -> float:
    """The interquartile range."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def figures(options: argparse.Namespace, turns: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians over the rounds; a round's time is the median of its steps."""
    steps = {side: [statistics.median(turn["times"]) for turn in turns[side]] for side in SIDES}
    ratios = [isobit / stock for stock, isobit in zip(steps["stock"], steps["isobit"], strict=True)]
    ran = {side: [turn["ran_ms"] for turn in turns[side]] for side in SIDES}
    counted = all(value > 0 for side in SIDES for value in ran[side])
    names = {name for side in SIDES for turn in turns[side] for name in turn["operators"]}

    def of(side: str, name: str, what: str) -> float:
        return statistics.median([float(turn["operators"].get(name, {}).get(what, 0.0)) for turn in turns[side]])

    operators = [{"name": name, "calls": max(of(side, name, "calls") for side in SIDES),
                  **{f"{side}_ms": of(side, name, "ms") for side in SIDES}} for name in names]
    operators.sort(key=lambda row: (-float(row["isobit_ms"]), row["name"]))
    return {"format": "isobit-bench-1", "contract": turns["isobit"][0]["contract"], "script": options.script,
            "threads": turns["isobit"][0]["threads"], "steps": options.steps, "rounds": options.rounds,
            "stock_ms": statistics.median(steps["stock"]), "isobit_ms": statistics.median(steps["isobit"]),
            "ratio": statistics.median(ratios), "spread": _spread(ratios),
            **({f"{side}_ran_ms": statistics.median(ran[side]) for side in SIDES}
               | {"ran_ratio": statistics.median(map(operator.truediv, ran["isobit"], ran["stock"]))} if counted else {}),
            **{f"{side}_peak_mib": max(turn["peak_mib"] for turn in turns[side]) for side in SIDES},
            "waited": statistics.median([turn["waited"] for side in SIDES for turn in turns[side]]),
            "refused": sorted({name for turn in turns["isobit"] for name in turn["refused"]}), "operators": operators}


def as_text(found: dict[str, Any], most: int) -> str:
    title = (f"isobit bench {found['script']}: {found['rounds']} rounds of {found['steps']} steps, stock and isobit in turns, "
             f"{found['threads']} threads")
    step = (f"{'a step, ms':<44} {found['stock_ms']:>10.2f} {found['isobit_ms']:>10.2f} {found['ratio']:>7.3f}   "
            f"(spread {found['spread']:.3f})")
    lines = [title, "", f"{'':<44} {'stock':>10} {'isobit':>10} {'ratio':>7}", step]
    if "ran_ratio" in found:
        lines.append(f"{'of it on a core (the calling thread), ms':<44} {found['stock_ran_ms']:>10.2f} "
                     f"{found['isobit_ran_ms']:>10.2f} {found['ran_ratio']:>7.3f}")
    lines += [
             f"{'peak memory, MiB':<44} {found['stock_peak_mib']:>10.0f} {found['isobit_peak_mib']:>10.0f}"]
    if most > 0:
        lines += ["", f"{'ms a step under the profiler (calls)':<44} {'stock':>10} {'isobit':>10} {'ratio':>7}"]
    for row in found["operators"][:most]:
        title = row["name"] if row["name"] == BETWEEN else f"{row['name']} ({row['calls']:.0f})"
        ratio = f"{row['isobit_ms'] / row['stock_ms']:>7.2f}" if row["stock_ms"] >= 0.0005 else f"{'-':>7}"
        lines.append(f"{title[:44]:<44} {row['stock_ms']:>10.3f} {row['isobit_ms']:>10.3f} {ratio}")
    if found["refused"]:
        refused = ", ".join(found["refused"])
        lines += ["", f"isobit refuses {refused}: stock PyTorch computed that on both sides (isobit check {found['script']})"]
    if found["waited"] >= QUIET:
        lines += ["", (f"note: others use the cores: {100 * found['waited']:.0f} % of the time the script waited for one; "
                       "measure again where nothing else runs, or go by the time on a core")]
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """The exit code."""
    options = _options(words)
    try:
        found = figures(options, _measure(options))
    except _Failed as failure:
        complain(str(failure), options.json)
        return 2
    print(json.dumps(found, indent=2) if options.json else as_text(found, options.operators))
    return 0
