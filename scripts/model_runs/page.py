"""docs/models.md, made from docs/models.json (scripts/models --page); docs/models.json, made from the results."""

import collections
import json
import math
import os
import pathlib
import platform
import sys

from model_runs import judge

WIDTH = 130
KEPT = ("outcome", "message", "executions", "parameters", "gradients", "refusals", "stopped")

HEAD = """\
# Models and trainers of other libraries

`scripts/models --page` writes this page from [models.json](models.json); a test checks that it is current. It is for
{contract}, torch {torch}, on {processor}.

A model is made small by its configuration, with random weights, and takes two steps of AdamW with the switch on from its
making to its last weights ([scripts/model_runs](../scripts/model_runs)). Each execution is a process of its own. CI runs the
models of torch.nn, which need no other library; the versions of the others are pinned in `scripts/models.txt`.

- **equal**: all weights, buffers and losses have the same bits in every execution: {pair}; for those
  marked * also the reference kernels and three threads.
- **refused**: isobit refuses an operator. All that the model needs and isobit refuses are named, not the first alone.
- **other bits**, **fails**: isobit breaks its promise.
- **stock fails too**, **too slow**: stock PyTorch does not train the model here either, or not in {seconds} s, so nothing is
  said.

The **gradients** of the first step are compared with stock's in float64 on the same weights: the number is the relative
distance of the vector of all gradients; `scripts/model_runs/gradients.py` states the bound. `~` marks models that draw random
numbers of their own, so there is nothing to compare. `s` marks those that were compared again with running statistics and on
other inputs: batch normalisation over the few values of a small batch leaves stock's float32 without correct digits, too, and a
ReLU's input that rounds to the other side of zero moves a gradient by more than rounding.

The **time** is a training step's, divided by stock's: processor time of one thread. The models are so small that it shows what
isobit adds to a call rather than its kernels' speed ([performance](performance.md)).
"""  # _timed goes on here

TIMED = """\
Measured by `scripts/models --time` on {processor}, {dates}: stock and isobit in turns in one process, {rounds} rounds, the
median of their ratios; a quarter of the models has a spread (interquartile range) of {spread} and more. Geometric mean {mean};
above 1: {above} of {count} models, above 1.1: {far}.
"""

TRAINERS = """
## Trainers

`scripts/models --trainers` runs a script with each library's own training loop
([examples/python/trainers](../examples/python/trainers)): recorded with `isobit.record`; verified with `isobit verify`, which
runs it again on another instruction set with another number of threads; killed in the middle and resumed, to the record and the
weights of a run that was not killed, bit for bit.

"""


def row_of(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def render(stored):
    models = stored["models"]
    pair = " and ".join(stored["executions"])
    text = HEAD.format(
        contract=stored["contract"], torch=stored["torch"], processor=stored["processor"], pair=pair, seconds=stored["seconds"]
    )
    text += _timed(stored) + "\n" + _partial(stored)
    text += _counts(stored) + _refused(models) + _odd(models) + TRAINERS + _trainers(stored["trainers"])
    return text + _lists(models)


def _timed(stored):
    if "timed" not in stored:
        return ""
    rows = [row for row in stored["models"].values() if "time" in row]
    ratios = [row["time"] for row in rows]
    return TIMED.format(
        **stored["timed"],
        spread=f"{sorted(row['spread'] for row in rows)[3 * len(rows) // 4]:.2f}",
        mean=f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}",
        count=len(ratios),
        above=sum(ratio > 1 for ratio in ratios),
        far=sum(ratio > 1.1 for ratio in ratios),
    )


def _partial(stored):
    text = ""
    if stored["builds"] > 1:
        but = ", the times of one" if "timed" in stored else ""
        text += f"The results are of {stored['builds']} builds of isobit, as its operators grew{but}. "
    if stored["missing"]:
        text += f"{len(stored['missing'])} models of the lists have not run yet."
    return text.strip() + "\n\n" if text else ""


def _counts(stored):
    shown = [outcome for outcome in judge.OUTCOMES if any(row["outcome"] == outcome for row in stored["models"].values())]
    text = row_of(["library", "version", "models", *shown, "gradients within the bound", "median time"])
    text += row_of(["---", "---", *["---:"] * (len(shown) + 3)])
    for library, version in stored["versions"].items():
        rows = [row for key, row in stored["models"].items() if key.startswith(f"{library}/")]
        text += row_of([library, version, *_numbers(rows, shown)])
    return text + row_of(["**all**", "", *_numbers(list(stored["models"].values()), shown)])


def _numbers(rows, shown):
    compared = [row["gradients"]["within"] for row in rows if "within" in row.get("gradients", {})]
    ratios = sorted(row["time"] for row in rows if "time" in row)
    return [
        len(rows),
        *(sum(row["outcome"] == outcome for row in rows) for outcome in shown),
        f"{sum(compared)} of {len(compared)}",
        f"{ratios[len(ratios) // 2]:.2f}" if ratios else "",
    ]


def stopped_by(models):
    """[(operator, [keys of the models that it stops])], the most first."""
    found = collections.defaultdict(list)
    for key, row in models.items():
        for refusal in row.get("refusals", ()):
            found[refusal["operator"]].append(key)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _refused(models):
    text = "\n## What refused models need\n\n" + row_of(["operator", "models", ""]) + row_of(["---", "---:", "---"])
    for operator, keys in stopped_by(models):
        others = f" and {len(keys) - 4} more" if len(keys) > 4 else ""
        text += row_of([f"`{operator}`", len(keys), ", ".join(keys[:4]) + others])
    return text


def _odd(models):
    rows = [(key, row) for key, row in models.items() if row["outcome"] not in ("equal", "refused") or judge.is_bad(row)]
    if not rows:
        return ""
    text = (
        "\n## Neither equal nor refused, and gradients beyond the bound\n\n"
        + row_of(["model", "outcome", ""])
        + row_of(["---"] * 3)
    )
    for key, row in rows:
        why = (
            row.get("message")
            or f"gradients: {row['gradients']['error']:.1e}, stock's float32 {row['gradients'].get('stock', 0):.1e}"
        )
        text += row_of([key, row["outcome"], why.replace("|", "\\|")[:140]])
    return text


def _trainers(rows):
    kinds = ("recorded", "verified", "resumed")
    text = row_of(["trainer", "version", *kinds]) + row_of(["---"] * 5)
    for row in rows:
        text += row_of([row["name"], row["version"], *(row.get(kind, "").replace("|", "\\|") for kind in kinds)])
    return text


def _lists(models):
    text = "\n## Every model\n"
    libraries = list(dict.fromkeys(key.split("/", 1)[0] for key in models))
    for library in libraries:
        text += (
            f"\n### {library}\n\n"
            + row_of(["model", "weights", "outcome", "gradients", "time"])
            + row_of(["---", "---:", "---", "---:", "---:"])
        )
        for key, row in models.items():
            name = key.split("/", 1)
            if name[0] == library:
                text += row_of(
                    [
                        name[1] + "*" * (len(row.get("executions", ())) > 2),
                        row.get("parameters", ""),
                        _outcome(row),
                        _gradient(row),
                        f"{row['time']:.2f}" if "time" in row else "",
                    ]
                )
    return text


def _outcome(row):
    if row["outcome"] != "refused":
        return row["outcome"]
    return "refused: " + ", ".join(f"`{refusal['operator']}`" for refusal in row["refusals"])


def _gradient(row):
    found = row.get("gradients")
    if not found:
        return ""
    if "error" not in found or isinstance(found["error"], str):
        return "~"
    return f"{found['error']:.0e}" + (" s" if "order" in found else "")


# ---- from the results


def _processor():
    """The name, with family and model where it has them: "AMD EPYC" alone is any of five makes."""
    known = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        known.setdefault(name.strip(), value.strip())
    if "model name" not in known:
        return platform.machine()
    make = f" (family {known['cpu family']}, model {known['model']})" if "cpu family" in known and "model" in known else ""
    return "an " + known["model name"].replace("Processor", "").strip() + make


def collected(results, entries, trainers, seconds, contract):
    """What the page is made of, and the models without a row."""
    models, versions, builds, pair = {}, {}, set(), []
    missing = [key for key in entries if key not in results.rows]
    for key in entries:
        if key in missing:
            continue
        row = results.rows[key]
        kept = {name: row[name] for name in KEPT if name in row}
        if "stock_seconds" in row:
            kept["time"] = float(f"{row['seconds'] / row['stock_seconds']:.2g}")
            pair = row["executions"][:2]
        kept["refusals"] = [{name: refusal[name] for name in ("operator", "message")} for refusal in row.get("refusals", ())]
        models[key] = {name: value for name, value in kept.items() if value not in ([], "")}
        versions.setdefault(row["library"], row["versions"][row["library"]].split("+")[0])
        builds.add(row["build"])
    return {
        "contract": contract,
        "torch": versions.get("torch.nn", ""),
        "processor": _processor(),
        "seconds": seconds,
        "executions": pair,
        "missing": missing,
        "builds": len(builds),
        "versions": versions,
        "trainers": trainers,
        "models": models,
    }


def as_text(stored):
    parts = []
    for key, value in stored.items():
        if key in ("models", "trainers"):
            rows = (
                [f"{json.dumps(name)}: {json.dumps(row)}" for name, row in value.items()]
                if isinstance(value, dict)
                else map(json.dumps, value)
            )
            opening, closing = "{}" if isinstance(value, dict) else "[]"
            value = opening + "\n    " + ",\n    ".join(rows) + "\n  " + closing
        else:
            value = json.dumps(value)
        parts.append(f"{json.dumps(key)}: {value}")
    return "{\n  " + ",\n  ".join(parts) + "\n}\n"


def put(path, text):
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def write(root, results, trainers, seconds, contract, partial=False):
    """The exit code. Every model must have a row, and all of one build of isobit; else the page is partial, and says so."""
    from model_runs import entries

    stored = collected(results, entries.all_entries(), trainers, seconds, contract)
    keep_times(stored, root / "docs" / "models.json")
    if (stored["missing"] or stored["builds"] > 1) and not partial:
        print(
            f"models: {len(stored['missing'])} models have no result, and the results are of {stored['builds']} builds: "
            "run scripts/models, which runs what is not of this build (or --page --partial: the page then says so)",
            file=sys.stderr,
        )
        return 2
    put(root / "docs" / "models.json", as_text(stored))
    put(root / "docs" / "models.md", render(stored))
    return 0


def keep_times(stored, path):
    """What --time measured stays, for all models or none: a run's own times are of single steps."""
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if "timed" not in before:
        return
    stored["timed"] = before["timed"]
    for key, row in stored["models"].items():
        timed = before["models"].get(key, {})
        for name in ("time", "spread"):
            row.pop(name, None)
            if name in timed:
                row[name] = timed[name]


def write_times(root, results, partial=False):
    """The times of --time into the page that is there. The exit code: every model that trains must have one, all of one build."""
    stored = json.loads((root / "docs" / "models.json").read_text(encoding="utf-8"))
    rows = {key: row for key, row in results.rows.items() if "ratio" in row and key in stored["models"]}
    missing = [key for key, row in stored["models"].items() if row["outcome"] == "equal" and key not in rows]
    builds = {row["build"] for row in rows.values()}
    if not rows or ((missing or len(builds) > 1) and not partial):
        print(
            f"models: {len(missing)} models have no time ({', '.join(missing[:3])}), and the times are of {len(builds)} builds: "
            "run scripts/models --time, which runs what is not of this build (or --partial)",
            file=sys.stderr,
        )
        return 2
    for key, row in stored["models"].items():
        for name in ("time", "spread"):
            row.pop(name, None)
        if key in rows:
            row["time"], row["spread"] = round(rows[key]["ratio"], 3), round(rows[key]["spread"], 3)
    dates = sorted({row["date"] for row in rows.values()})
    counts = sorted({row["rounds"] for row in rows.values()})
    stored["timed"] = {
        "processor": _processor(),
        "dates": " to ".join(dict.fromkeys((dates[0], dates[-1]))),
        "rounds": " to ".join(dict.fromkeys((str(counts[0]), str(counts[-1])))),
    }
    models, run = stored.pop("models"), stored.pop("trainers")
    stored |= {"trainers": run, "models": models}
    put(root / "docs" / "models.json", as_text(stored))
    put(root / "docs" / "models.md", render(stored))
    return 0


def check(root):
    stored = json.loads((root / "docs" / "models.json").read_text(encoding="utf-8"))
    if (root / "docs" / "models.md").read_text(encoding="utf-8") == render(stored):
        return 0
    print("models: docs/models.md is not what docs/models.json gives: run scripts/models --page and commit both", file=sys.stderr)
    return 1
