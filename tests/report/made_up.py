"""Results of `isobit diff`, `isobit drift` and `isobit study` as a report reads them, made up: numbers are functions of their place."""

import functools
import json
import math
import pathlib

import tomllib


def write(path: pathlib.Path, value: object) -> pathlib.Path:
    path.write_text(json.dumps(value))
    return path


def diff(a: str, b: str) -> dict:
    return {
        "format": "isobit-diff-1", "results": "differ",
        "a": {"id": a, "name": "small", "path": f"runs/{a}", "contract": "isobit-0.1"},
        "b": {"id": b, "name": "small", "path": f"runs/{b}", "contract": "stock-2.13.0"},
        "differences": [
            {"part": "experiment", "key": "arithmetic.kind", "a": "\"isobit\"", "b": "\"stock\"", "counts": True},
            {"part": "environment", "key": "run.threads", "a": "1", "b": "2", "counts": False},
            {"part": "hardware", "key": "hardware.cpu", "a": "AMD EPYC", "b": "Intel Xeon", "counts": False}],
        "code_diff": "--- a/train.py\n+++ b/train.py\n@@ -1,3 +1,3 @@\n import torch\n-lr = 0.1\n+lr = 0.2\n",
        "compared": {"steps": 2814, "metrics": 6, "checkpoints": 5, "operators": 412},
        "first_step": {"step": 17, "epoch": 1, "field": "loss", "a": "3ff8ab12", "b": "3ff8ab13"},
        "operator": {"step": 17, "phase": "forward", "module": "features.conv1", "name": "aten::convolution", "occurrence": 0,
                     "output": 0, "shape": [64, 6, 28, 28], "dtype": "float32", "max_ulp": 3, "at": [12, 4, 7, 19],
                     "differing": 1871, "elements": 301056},
        "not_looked_into": ""}


def drift(reference: str, others: list[str], layers: int = 12, steps: int = 40) -> dict:
    names = [f"layer{i // 2}.{'bias' if i % 2 else 'weight'}" for i in range(layers)]
    numbers = [1 + 25 * i for i in range(steps)]
    cells, per_step = [], []
    for r, run in enumerate(others):
        for s, step in enumerate(numbers):
            per_step.append({"run": run, "step": step, "loss": 2.3 * math.exp(-s / 20), "loss_difference": 1e-8 * 1.4 ** s * (r + 1),
                             "accuracy": 0.8 - 0.001 * s, "churn": min(0.2, 0.0004 * s * s)})
            for i, name in enumerate(names):
                ulp = 0 if s < 2 + i // 4 else math.floor(1.42 ** s * (1 + i % 3) * (r + 1))
                cells.append({"run": run, "step": step, "layer": name, "max_ulp": ulp, "median_ulp": ulp // 40,
                              "relative_norm": ulp * 6e-8, "flipped_signs": min(1.0, ulp * 1e-8)})
    return {"format": "isobit-drift-1", "reference": reference, "runs": others, "steps": numbers, "layers": names,
            "cells": cells, "per_step": per_step}


def say_what_is_recorded(cell: dict, run: pathlib.Path) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    cell["value"] = [line for line in lines if line["set"] == "test"][-1]["values"]["accuracy"]
    recorded = tomllib.loads((run / "experiment.toml").read_text())
    for key in cell["factors"]:
        value = functools.reduce(lambda table, part: table.get(part) if isinstance(table, dict) else None, key.split("."), recorded)
        cell["factors"][key] = cell["factors"][key] if value is None else value


def study(folder: pathlib.Path, runs: list[str], name: str = "lr and arithmetic") -> pathlib.Path:
    """Two learning rates by two kinds of arithmetic by ten seeds, in `folder`; `runs` are ids in folder/runs, given to the first cells."""
    levels = [("0.05", "isobit", 0.842, 0.0031), ("0.05", "stock", 0.8415, 0.0036), ("0.1", "isobit", 0.851, 0.0028), ("0.1", "stock", 0.8502, 0.0041)]
    cells, summary = [], []
    for rate, kind, mean, spread in levels:
        values = [mean + spread * math.sin(2.3 * seed + len(kind)) for seed in range(10)]
        middle = sum(values) / 10
        deviation = math.sqrt(sum((v - middle) ** 2 for v in values) / 9)
        summary.append({"factors": {"optimizer.lr": float(rate), "arithmetic.kind": kind}, "n": 10, "mean": middle, "sd": deviation,
                        "low": middle - 0.7 * deviation, "high": middle + 0.7 * deviation})
        for seed, value in enumerate(values):
            index = len(cells)
            cells.append({"index": index, "factors": {"optimizer.lr": float(rate), "arithmetic.kind": kind, "seed": seed}, "repeat": 0,
                          "fold": None, "group": None, "state": "finished", "run": runs[index] if index < len(runs) else "",
                          "value": value, "note": ""})
    cells[-1].update(state="failed", value=None, note="the loss of step 6 is not finite")
    folder.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        if (folder / "runs" / (cell["run"] or "-") / "manifest.json").exists():
            say_what_is_recorded(cell, folder / "runs" / cell["run"])
    (folder / "study.toml").write_text(f'name = "{name}"\n')
    write(folder / "cells.json", {"format": "isobit-study-cells-1", "name": name, "metric": "test.accuracy", "cells": cells})
    write(folder / "results.json", {
        "format": "isobit-study-1", "name": name, "metric": "test.accuracy", "summary": summary,
        "components": [{"factor": "seed", "variance": 9.1e-6, "share": 0.31, "low": 0.18, "high": 0.49},
                       {"factor": "optimizer.lr", "variance": 1.9e-5, "share": 0.64, "low": 0.41, "high": 0.78},
                       {"factor": "arithmetic.kind", "variance": 1e-7, "share": 0.004, "low": 0, "high": 0.06},
                       {"factor": "rest", "variance": 1.3e-6, "share": 0.046, "low": 0.02, "high": 0.11}],
        "comparisons": [
            {"factor": "optimizer.lr", "a": "0.1", "b": "0.05", "n": 20, "difference": 0.0089, "low": 0.0071, "high": 0.0107, "noise": 0.0034,
             "p_permutation": 0.00002, "p_mcnemar": 0.0012, "p_corrected_t": 0.0041, "runs_needed": None, "verdict": "0.1 is better: the difference is more than noise."},
            {"factor": "arithmetic.kind", "a": "isobit", "b": "stock", "n": 20, "difference": 0.0006, "low": -0.0011, "high": 0.0024, "noise": 0.0034,
             "p_permutation": 0.4812, "p_mcnemar": None, "p_corrected_t": None, "runs_needed": 212, "verdict": "No verdict: the difference lies within the noise."}],
        "warnings": ["The folds were reused for both learning rates: intervals across folds are too narrow."]})
    return folder
