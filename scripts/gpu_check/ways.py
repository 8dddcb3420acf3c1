"""Ways by which a float could come to be on a CUDA device past the certified operators, each tried under the switch.

A way's verdict: "CPU's bits"; "refused" (by isobit); "PyTorch refuses" (as on the CPU or without the switch); "outside"
(docs/guard.md says that isobit does not see it); "unavailable" (this machine or PyTorch lacks it). "LEAK" (stock's bits came
out, or what the CPU refuses), "DIFFERS" and "UNEXPECTED" are findings. They run in processes of their own, which a way may
end or hang.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FINDINGS = ("LEAK", "DIFFERS", "UNEXPECTED")
LONGEST = 300  # of all of them


def every_way():
    """In the order in which they run: what may hurt the device last."""
    from gpu_check import ways_cuda, ways_operators, ways_streams, ways_training, ways_values

    return [way for module in (ways_values, ways_operators, ways_training, ways_streams, ways_cuda) for way in module.WAYS]


def compare(library, emulate, say, log):
    """{"switch": what turned it on, "rows": [{"name", "verdict", "words"}]}"""
    ways = every_way()
    by_environment = collections.defaultdict(list)
    for i, way in enumerate(ways):
        by_environment[way.environment].append(i)
    rows, switch = {}, None
    end = time.monotonic() + LONGEST
    with tempfile.TemporaryDirectory() as folder:
        for environment, left in by_environment.items():
            while left:
                if time.monotonic() > end:
                    rows.update({i: _row(ways[i], "UNEXPECTED", "not reached: the time was over") for i in left})
                    break
                file = pathlib.Path(folder) / f"rows-{len(rows)}-{left[0]}.jsonl"
                found, name = _process(library, emulate, dict(environment), left, file, ways, say, log)
                rows.update(found)
                switch = switch or name
                left = [i for i in left if i not in rows]
    rows = [rows[i] for i in sorted(rows)]
    for row in rows:
        log.write(f"{row['verdict']:16} {row['name']}: {row['words']}\n")
    return {"switch": switch, "rows": rows}


def _row(way, verdict, words):
    return {"name": way.name, "verdict": verdict, "words": words, "seconds": None}


def _package(library, emulate):
    """The package of the build that the library is of, as part samples finds it; else what PYTHONPATH has."""
    folder = pathlib.Path(library).resolve().parents[2] / "python" if emulate else pathlib.Path(library).resolve().parents[1]
    return [str(folder)] if (folder / "isobit" / "__init__.py").exists() else []


def _process(library, emulate, environment, indices, file, ways, say, log):
    """Rows by index of those that it came to, and what turned the switch on there."""
    command = [sys.executable, "-W", "ignore", str(ROOT / "scripts/gpu_check/ways_worker.py"), "--rows", str(file),
               "--only", ",".join(map(str, indices)), "--emulate" if emulate else "--library", str(library)]
    path = os.pathsep.join([*_package(library, emulate), *filter(None, [os.environ.get("PYTHONPATH")])])
    with open(f"{file}.log", "w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env={**os.environ, **environment, "PYTHONPATH": path}, start_new_session=True)
        rows, state = _follow(process, file, say)
        output.seek(0)
        text = output.read()
        log.write(f"== {' '.join(command)}\n{text[-20000:]}\n")
    begun = state.get("begins")
    if begun is not None and begun not in rows:
        last = (text.strip().splitlines() or [""])[-1][:120]
        ended = f"it ended its process ({process.returncode}): {last}"
        reason = "it hung, and its process was stopped" if state["hung"] else ended
        rows[begun] = _row(ways[begun], "UNEXPECTED", reason)
        say(f"UNEXPECTED {ways[begun].name}: {reason}")
    if not rows:  # the process never came to a way: nor would the next one
        last = (text.strip().splitlines() or [""])[-1][:160]
        rows = {i: _row(ways[i], "UNEXPECTED", f"its process did not start: {last}") for i in indices}
    return rows, state.get("switch")


def _follow(process, file, say):
    """Reads what the process writes until it ends, or takes too long over one way."""
    rows, state, read = {}, {"hung": False}, 0
    deadline = time.monotonic() + 120  # to import torch and to start the device
    while True:
        ended = process.poll() is not None
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        for line in lines[read:]:
            try:
                entry = json.loads(line)
            except ValueError:  # half written
                break
            read += 1
            state.update({key: entry[key] for key in ("begins", "switch") if key in entry})
            if "way" in entry:
                rows[entry.pop("way")] = entry
                if entry["verdict"] in FINDINGS:
                    say(f"{entry['verdict']} {entry['name']}: {entry['words']}")
                deadline = time.monotonic() + 30
            else:
                deadline = time.monotonic() + entry.get("seconds", 120)  # the device starts with the first one
        if ended:
            return rows, state
        if time.monotonic() > deadline:
            state["hung"] = True
            process.kill()
            process.wait()
            return rows, state
        time.sleep(0.05)


def counts(result):
    return collections.Counter(row["verdict"] for row in result["rows"])


def good(result):
    return result is None or not any(row["verdict"] in FINDINGS for row in result["rows"])


def words(result):
    parts = [f"{number} {verdict}" for verdict, number in counts(result).most_common()]
    findings = [f"{row['verdict']} {row['name']}: {row['words']}" for row in result["rows"] if row["verdict"] in FINDINGS]
    return "\n  ".join([f"{len(result['rows'])} tried under {result['switch']}: {', '.join(parts)}", *findings])
