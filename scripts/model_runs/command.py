"""scripts/models: arguments, the loop over models, what is printed and kept."""

import argparse
import collections
import contextlib
import fnmatch
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

from model_runs import environment, judge, page, steps, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 120  # of one execution


class Worker:
    """A process with one library loaded, which forks for each execution (worker.py)."""

    def __init__(self, library):
        variables = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join([str(ROOT / "scripts"), environment.package()]),
            HF_HUB_OFFLINE="1",
            OMP_NUM_THREADS="1",
            OMP_WAIT_POLICY="PASSIVE",
            TOKENIZERS_PARALLELISM="false",
        )
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "model_runs.worker", library],
            env=variables,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        started = self.process.stdout.readline()
        if not started:
            raise LookupError(f"{library} does not load: .../python -m model_runs.worker '{library}' says why")
        self.versions = json.loads(started)["versions"]

    def ask(self, name, seconds, work, isa, threads, timed, **more):
        request = {"name": name, "work": work, "isa": isa, "threads": threads, "timed": timed, "seconds": seconds, **more}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def build_digest():
    """Which isobit: a digest of the library and the package's modules."""
    digest = hashlib.sha256()
    folder = pathlib.Path(environment.package()) / "isobit"
    for path in sorted([*folder.rglob("*.py"), folder / "libisobit_torch.so"]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


class Results:
    """A file of rows, one a line, appended to as they come: a killed run resumes after the last one."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.rows = {}
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        self.whole = not text or text.endswith("\n")  # else a killed run was writing its last line
        if text:
            for line in text.splitlines():
                with contextlib.suppress(json.JSONDecodeError):
                    row = json.loads(line)
                    self.rows[f"{row['library']}/{row['name']}"] = row

    def add(self, row):
        self.rows[f"{row['library']}/{row['name']}"] = row
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("" if self.whole else "\n") + json.dumps(row) + "\n")
        self.whole = True


def shard(text):
    """--shard I/N: (I, N)."""
    first, _, count = text.partition("/")
    if not (first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise argparse.ArgumentTypeError(f"I/N with 1 <= I <= N expected, as 2/5; got '{text}'")
    return int(first), int(count)


def rounds(text):
    """--rounds N: at least two, of which a spread can be told."""
    if not text.isdigit() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"a number of rounds, at least 2, expected; got '{text}'")
    return int(text)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/models",
        description=__import__("model_runs").__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  scripts/models --setup                             the libraries, into build/models-env\n"
        "  scripts/models                                     all models; resumes where it was killed\n"
        "  scripts/models --library timm --model 'resnet*' --fresh\n"
        "  scripts/models --time --library timm               steps of stock and isobit in turns\n"
        "  scripts/models --time --full-size --rounds 3       models as large as they are trained, a quarter of an hour\n"
        "  scripts/models --trainers\n"
        "  scripts/models --page                              docs/models.json and docs/models.md from the results",
    )
    parser.add_argument("--setup", action="store_true", help="make the environment of scripts/models.txt in build/models-env")
    parser.add_argument("--list", action="store_true", help="print the models, run nothing")
    parser.add_argument("--library", action="append", metavar="NAME", help="only this library's models (may be repeated)")
    parser.add_argument("--model", action="append", metavar="NAME", help="only models of this name, a pattern (may be repeated)")
    parser.add_argument("--outcome", choices=judge.OUTCOMES, help="only models whose last outcome was this")
    parser.add_argument("--shard", type=shard, default="1/1", metavar="I/N", help="every N-th of them, from the I-th on")
    parser.add_argument("--fresh", action="store_true", help="run models again that have a result of this build")
    parser.add_argument(
        "--trainers", action="store_true", help="the libraries' trainers instead: recorded, verified, killed and resumed"
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="time training steps instead: stock and isobit in turns, one thread; with --page: those into the page",
    )
    parser.add_argument(
        "--full-size", action="store_true", help="with --time or --list: models at the size they are trained at, not made small"
    )
    parser.add_argument(
        "--rounds", type=rounds, default=steps.ROUNDS, metavar="N", help=f"with --time: turns of each side ({steps.ROUNDS})"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help=f"for one execution ({SECONDS})")
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="where rows are kept (in build/models: results.jsonl; with --time times.jsonl, full-size-times.jsonl)",
    )
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    parser.add_argument("--page", action="store_true", help="write docs/models.json and docs/models.md from the results")
    parser.add_argument("--partial", action="store_true", help="with --page: also where results are missing or of another build")
    parser.add_argument(
        "--check", action="store_true", help="whether docs/models.md is what docs/models.json gives; exit 1 if not"
    )
    parser.add_argument("--here", action="store_true", help="in this Python, not in build/models-env")
    options = parser.parse_args(arguments)
    if options.full_size and (options.page or not (options.time or options.list)):
        parser.error("--full-size goes with --time or --list, without --page")
    kept = "full-size-times.jsonl" if options.full_size else "times.jsonl" if options.time else "results.jsonl"
    options.results = options.results or str(ROOT / "build" / "models" / kept)
    return options


def chosen(options, results):
    """LookupError where no model has such a name."""
    from model_runs import entries

    named = [
        entry
        for entry in entries.all_entries(options.full_size).values()
        if (not options.library or entry.library in options.library)
        and (not options.model or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in options.model))
    ]
    if not named:
        raise LookupError("no model is chosen by --library and --model: scripts/models --list shows all")
    first, step = options.shard
    found = [entry for entry in named if options.outcome in (None, results.rows.get(entry.key, {}).get("outcome"))]
    return found[first - 1 :: step]


def isas():
    """The instruction sets of this machine."""
    from isobit._base import _library

    found = []
    for isa in ("avx2", "avx512"):
        with contextlib.suppress(ValueError):
            _library.set_isa(isa)
            found.append(isa)
    _library.set_isa("auto")
    return found


def with_workers(entries):
    """Each entry with the worker of its library, one library after the other."""
    worker, library = None, None
    try:
        for entry in entries:
            if entry.library != library:
                if worker:
                    worker.close()
                library, worker = entry.library, Worker(entry.library)
            yield entry, worker
    finally:
        if worker:
            worker.close()


def run(options, results):
    """Runs what has no row of this build yet. The rows of all that was chosen."""
    digest, here = build_digest(), isas()
    wanted = chosen(options, results)
    waiting = [entry for entry in wanted if options.fresh or results.rows.get(entry.key, {}).get("build") != digest]
    begin = time.monotonic()
    for place, (entry, worker) in enumerate(with_workers(waiting)):
        row = judge.examine(
            entry.key, lambda *what, entry=entry, worker=worker: worker.ask(entry.name, options.seconds, *what), here
        )
        results.add({"library": entry.library, "name": entry.name, "build": digest, "versions": worker.versions, **row})
        spent = time.monotonic() - begin
        left = spent / (place + 1) * (len(waiting) - place - 1)
        print(
            f"[{place + 1}/{len(waiting)}] {entry.key}: {row['outcome']} {_detail(row)}; {left / 60:.0f} min left",
            file=sys.stderr,
            flush=True,
        )
    return [results.rows[entry.key] for entry in wanted]


def time_steps(options, results):
    """The rows with the times of what was chosen. What has no row of this build and these rounds runs, and what was too slow."""
    digest, wanted = build_digest(), chosen(options, results)

    def is_done(row):
        known = row.get("rounds") == options.rounds if "ratio" in row else "slow" not in row
        return row.get("build") == digest and known

    waiting = [entry for entry in wanted if options.fresh or not is_done(results.rows.get(entry.key, {}))]
    begin = time.monotonic()
    for place, (entry, worker) in enumerate(with_workers(waiting), 1):
        found = worker.ask(entry.name, options.seconds, "time", "auto", 1, True, rounds=options.rounds)
        row = {"library": entry.library, "name": entry.name, "build": digest, "date": time.strftime("%Y-%m-%d"), **found}
        results.add(row)
        steps.progress(place, len(waiting), row, (time.monotonic() - begin) / place * (len(waiting) - place))
    return [results.rows[entry.key] for entry in wanted]


def _detail(row):
    if row["outcome"] == "equal":
        gradients = row["gradients"]
        note = "gradients BEYOND the bound" if gradients.get("within") is False else gradients.get("error", "")
        return f"({row['seconds'] / row['stock_seconds']:.2f} of stock's time; {note})"
    if row["outcome"] == "refused":
        return "(" + ", ".join(refusal["operator"] for refusal in row["refusals"]) + ")"
    return f"({row.get('message', '')})"


def summary(rows):
    counts = collections.Counter(row["outcome"] for row in rows)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in judge.OUTCOMES if counts[outcome]) or "no models"


def main(arguments=None):
    options = parse(arguments)
    if options.setup:
        return environment.setup()
    if options.check:
        return page.check(ROOT)
    results = Results(options.results)
    if options.trainers:
        return trainers.main(ROOT, options)
    if options.page and options.time:
        return page.write_times(ROOT, results, options.partial)
    if options.page:
        import isobit

        return page.write(ROOT, results, trainers.rows(ROOT), int(SECONDS), isobit.contract_version, options.partial)
    try:
        if options.list:
            print("\n".join(entry.key for entry in chosen(options, results)))
            return 0
        rows = time_steps(options, results) if options.time else run(options, results)
    except LookupError as error:
        print(f"models: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(rows, indent=1))
    if options.time:
        if not options.json:
            steps.show(rows)
        return 0
    bad = [row for row in rows if judge.is_bad(row)]
    for row in bad:
        print(
            f"models: {row['library']}/{row['name']}: {row['outcome']}: {row.get('message') or row.get('gradients')}",
            file=sys.stderr,
        )
    print(f"models: {len(rows)}: {summary(rows)}", file=sys.stderr)
    return 1 if bad else 0
