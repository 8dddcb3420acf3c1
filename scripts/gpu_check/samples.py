"""PyTorch's own operator samples, modules and optimizers on the device against the CPU's bits: scripts/op-samples, in a process
of its own and for a bounded time."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS, EMULATED_SECONDS = 90, 15  # no operator is begun later
LONGEST = 300  # of a process


def compare(library, emulate, count, log):
    """{"samples": report, "training": report}; {"missing": text} where the database needs a module that is not there."""
    try:
        import expecttest  # noqa: F401  torch.testing's database imports it
    except ImportError:
        return {"missing": "expecttest is not installed: pip install expecttest"}
    place = ["--emulate", str(library)] if emulate else ["--device", "cuda:0"]
    count = count if count is not None else (1 if emulate else 6)
    seconds = EMULATED_SECONDS if emulate else SECONDS
    names = ["--op", "Linear", "--op", "LSTM", "--op", "SGD"] if emulate else []
    return {"samples": _run(library, emulate, [*place, "--samples", str(count), "--seconds", str(seconds)], log),
            "training": _run(library, emulate, [*place, "--training", *names], log)}


def _run(library, emulate, arguments, log):
    # The package of the build that the library is of; an emulated one lies in the build's tests/aten.
    package = pathlib.Path(library).resolve().parents[2] / "python" if emulate else pathlib.Path(library).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "report.json"
        command = [sys.executable, "-W", "ignore", str(ROOT / "scripts" / "op-samples"), *arguments, "--out", str(out)]
        try:
            done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST,
                                  env={**os.environ, "PYTHONPATH": str(package)}, check=False)
        except subprocess.TimeoutExpired:
            return {"broken": "stopped: it ran out of time"}
        log.write(f"== {' '.join(command)}\n{done.stdout}\n")
        if not out.exists():
            return {"broken": (done.stdout.strip().splitlines() or [f"exit {done.returncode}"])[-1]}
        return json.loads(out.read_text(encoding="utf-8"))


def good(result):
    if result is None or "missing" in result:
        return True
    return (all("broken" not in report for report in result.values()) and result["samples"]["total"]["fail"] == 0
            and not _failed(result))


def _failed(result):
    return [row["name"] for kind in ("modules", "optimizers", "capturable") for row in result["training"][kind]
            if row["verdict"] == "fails"]


def words(result):
    if "missing" in result:
        return f"not run, {result['missing']}"
    for name, report in result.items():
        if "broken" in report:
            return f"STOPPED EARLY ({name}): {report['broken']}"
    total, training = result["samples"]["total"], result["training"]
    text = f"{total['pass']} equal, {total['fail']} DIFFER" if total["fail"] else f"{total['pass']} equal"
    text += f", {total['refused']} refused on the device"
    if result["samples"]["left_out"]:
        text += f", {len(result['samples']['left_out'])} operators not reached in time"
    for kind in ("modules", "optimizers"):
        text += f"; {kind}: {sum(row['verdict'] == 'works' for row in training[kind])} of {len(training[kind])} equal"
    failing = [f"{name} sample {failure['sample']}: {failure['reason']}" for name, row in result["samples"]["operators"].items()
               for failure in row["failures"]]
    return "\n  ".join([text, *failing[:20], *[f"{name} FAILS" for name in _failed(result)]])
