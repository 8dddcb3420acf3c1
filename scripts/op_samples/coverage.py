"""scripts/coverage: docs/coverage.json and docs/coverage.md, made anew or checked."""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from op_samples import device_page, modules, optimizers, page

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORED, PAGE = ROOT / "docs" / "coverage.json", ROOT / "docs" / "coverage.md"
DEVICE_STORED, DEVICE_PAGE = ROOT / "docs" / "coverage-device.json", ROOT / "docs" / "coverage-device.md"
DEVICE_ELEMENTS = 20000  # of a sample on the emulated device
AGAIN = "run scripts/coverage and commit docs/coverage.json and docs/coverage.md"


def operators(program):
    done = subprocess.run([program, "ops", "--coverage", "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def training():
    return {"modules": [_plain(row) for row in modules.table()],
            "optimizers": [_plain(row) for row in optimizers.table()]}


def _plain(row):
    return {**dataclasses.asdict(row), "reasons": list(row.reasons[:3])}


def shards(jobs, *arguments):
    """The reports of scripts/op-samples, the operators shared out among processes."""
    with tempfile.TemporaryDirectory() as folder:
        files = [f"{folder}/{i}.json" for i in range(jobs)]
        running = [subprocess.Popen([sys.executable, "-W", "ignore", ROOT / "scripts" / "op-samples", "--shard",
                                     f"{i + 1}/{jobs}", "--out", file, *arguments], stdout=subprocess.DEVNULL)
                   for i, file in enumerate(files)]
        if any(process.wait() not in (0, 1) for process in running):
            raise SystemExit("coverage: scripts/op-samples stopped early; run it alone to see why")
        return [json.loads(pathlib.Path(file).read_text(encoding="utf-8")) for file in files]


def samples(counts, jobs):
    from op_samples.command import totals

    rows = {name: row for part in shards(jobs) for name, row in part["operators"].items()}
    short = {name: {kind: rows[name][kind] for kind in ("pass", "fail", "refused", "skipped")} for name in sorted(rows)}
    return {"with": counts, "total": totals(rows), "operators": short}


def on_device(library, jobs):
    """The emulated device's samples, modules and optimizers."""
    from op_samples.command import totals

    parts = shards(jobs, "--emulate", library, "--elements", str(DEVICE_ELEMENTS))
    rows = {name: row for part in parts for name, row in part["operators"].items()}
    trained = shards(1, "--emulate", library, "--training")[0]
    found = device_page.summary({**parts[0], "total": totals(rows), "operators": rows})
    return {"contract": parts[0]["contract"], "torch": parts[0]["torch"], "samples": found,
            **{kind: trained[kind] for kind in ("modules", "optimizers", "capturable")}}


def make_device_page(library, jobs):
    result = on_device(library, jobs)
    write(DEVICE_STORED, stored_text(result))
    write(DEVICE_PAGE, device_page.render(result))
    total = result["samples"]["total"]
    failed = [row["name"] for kind in ("modules", "optimizers", "capturable") for row in result[kind]
              if row["verdict"] == "fails"]
    print(f"coverage: on the emulated device samples {total['pass']} pass, {total['fail']} fail, {total['refused']} refused; "
          f"modules and optimizers that fail: {', '.join(failed) or 'none'}")
    return 1 if failed or total["fail"] else 0


def write(path, text):
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def stored_text(result):
    """JSON with one line for each operator, module and optimizer."""
    parts = []
    for key, value in result.items():
        if isinstance(value, str):
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
        elif isinstance(value, list):
            inner = ",\n  ".join(json.dumps(row) for row in value)
            parts.append(f'"{key}": [\n  {inner}\n]')
        else:
            inner = ",\n  ".join(f"{json.dumps(name)}: " + _rows(entry) for name, entry in value.items())
            parts.append(f'"{key}": {{\n  {inner}\n}}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rows(entry):
    if isinstance(entry, dict) and all(isinstance(row, dict) for row in entry.values()):
        return "{\n    " + ",\n    ".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in entry.items()) + "\n  }"
    if isinstance(entry, list):
        return "[\n    " + ",\n    ".join(json.dumps(row) for row in entry) + "\n  ]"
    return json.dumps(entry)


def check(program):
    """What is not as stored, as texts; None where the page is of another torch."""
    result = json.loads(STORED.read_text(encoding="utf-8"))
    problems = []
    if PAGE.read_text(encoding="utf-8") != page.render(result):
        problems.append("docs/coverage.md is not what docs/coverage.json gives")
    on_device = json.loads(DEVICE_STORED.read_text(encoding="utf-8"))
    if DEVICE_PAGE.read_text(encoding="utf-8") != device_page.render(on_device):
        problems.append("docs/coverage-device.md is not what docs/coverage-device.json gives")
    now = operators(program)
    if now["torch"] != result["operators"]["torch"]:
        return None
    if now != result["operators"]:
        problems.append(f"operators: stored {result['operators']['all']}, now {now['all']}, or families differ")
    for kind, rows in training().items():
        before = {row["name"]: row for row in result[kind]}
        for row in rows:
            if before.get(row["name"]) != row:
                problems.append(f"{kind}: {row['name']} is now {row['verdict']} {row['reasons']}")
        problems += [f"{kind}: {row['name']} FAILS: {row['reasons']}" for row in rows if row["verdict"] == "fails"]
    return problems


def main():
    parser = argparse.ArgumentParser(prog="scripts/coverage", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only see whether the page is as it should be")
    parser.add_argument("--quick", action="store_true", help="keep the counts of the samples, which take minutes")
    parser.add_argument("--emulate", metavar="LIB", help="make the device's page, with libisobit_torch_emulated.so")
    parser.add_argument("--program", default=str(ROOT / "build" / "release" / "isobit"), help="the isobit program")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes for the samples")
    options = parser.parse_args()
    if options.check:
        problems = check(options.program)
        if problems is None:
            print("coverage: skipped, docs/coverage.md is of another torch", file=sys.stderr)
            return 77
        for problem in problems:
            print(f"coverage: {problem}", file=sys.stderr)
        if problems:
            print(f"coverage: {AGAIN}", file=sys.stderr)
        return 1 if problems else 0
    if options.emulate:
        return make_device_page(options.emulate, options.jobs)
    counts = operators(options.program)
    if options.quick:
        found = json.loads(STORED.read_text(encoding="utf-8"))["samples"]
    else:
        found = samples(counts["all"], options.jobs)
    result = {"operators": counts, "samples": found, **training()}
    write(STORED, stored_text(result))
    write(PAGE, page.render(result))
    failed = [row["name"] for kind in ("modules", "optimizers") for row in result[kind] if row["verdict"] == "fails"]
    print(f"coverage: samples {found['total']['pass']} pass, {found['total']['fail']} fail, {found['total']['refused']} "
          f"refused; modules and optimizers that fail: {', '.join(failed) or 'none'}")
    return 1 if failed or found["total"]["fail"] else 0
