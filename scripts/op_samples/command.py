"""scripts/op-samples: arguments, the loop over operators, what is printed."""

import argparse
import collections
import json
import os
import sys
import time

import torch

import isobit
from op_samples import check, samples, variants

KINDS = ("pass", "fail", "refused", "skipped")


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/op-samples", description=__import__("op_samples").__doc__)
    parser.add_argument("--op", action="append", metavar="NAME", help="only this operator (may be repeated)")
    parser.add_argument("--samples", type=int, metavar="N", help="at most N of each operator's samples, evenly spread")
    parser.add_argument("--large", action="store_true", help="longer tensors: work that is cut among threads")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="every N-th operator, from the I-th on")
    parser.add_argument("--json", action="store_true", help="all counts, refusals and failures as JSON")
    parser.add_argument("--out", metavar="FILE", help="the JSON into a file as well")
    parser.add_argument("--refused", action="store_true", help="list the refusals too")
    return parser.parse_args(arguments)


def chosen(options):
    entries = samples.operators(options.large)
    names = list(entries)
    if options.op:
        unknown = [name for name in options.op if name not in entries]
        if unknown:
            raise SystemExit(f"op-samples: no operator {unknown[0]!r} in the database")
        names = options.op
    shard, shards = map(int, options.shard.split("/"))
    return {name: entries[name] for name in names[shard - 1::shards]}


def run(options, progress=None):
    """name -> {"pass": n, ..., "failures": [...], "refusals": {...}}"""
    result = {}
    for name, entry in chosen(options).items():
        start = time.monotonic()
        try:
            found = samples.samples_of(entry, options.samples)
        except Exception as error:  # the database needs what is not here (SciPy, a GPU)
            result[name] = {"pass": 0, "fail": 0, "refused": 0, "skipped": 1, "notes": {}, "failures": [],
                            "refusals": {f"samples: {error}"[:200]: 1}}
            continue
        verdicts = check.check(name, found)
        row = {kind: check.count(verdicts)[kind] for kind in KINDS}
        row["notes"] = dict(collections.Counter(note for verdict in verdicts for note in verdict.notes))
        row["failures"] = [{"sample": sample.number, "reason": verdict.reason}
                           for sample, verdict in zip(found, verdicts) if verdict.kind == "fail"]
        row["refusals"] = dict(collections.Counter(v.reason for v in verdicts if v.kind in ("refused", "skipped")))
        result[name] = row
        if progress is not None:
            progress(name, row, time.monotonic() - start)
    return result


def totals(result):
    counts = {kind: sum(row[kind] for row in result.values()) for kind in KINDS}
    notes = collections.Counter()
    for row in result.values():
        notes.update(row["notes"])
    return {"operators": len(result), **counts, "compared": dict(sorted(notes.items()))}


def main(arguments=None):
    options = parse(arguments)

    def progress(name, row, seconds):
        if sys.stderr.isatty() or row["fail"]:
            print(f"{name}: {row['pass']} pass, {row['fail']} fail, {row['refused']} refused, {seconds:.1f} s",
                  file=sys.stderr)
            for failure in row["failures"][:3]:
                print(f"    sample {failure['sample']}: {failure['reason']}", file=sys.stderr)

    result = run(options, progress)
    report = {"contract": isobit.contract_version, "torch": torch.__version__.split("+")[0],
              "variants": variants.labels(), "samples": options.samples,
              "total": totals(result), "operators": result}
    if options.out:
        with open(options.out + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        os.replace(options.out + ".part", options.out)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print_table(report, options.refused)
    return 1 if report["total"]["fail"] else 0


def print_table(report, refused):
    rows = report["operators"]
    width = max(map(len, rows), default=8)
    print(f"{'operator':{width}}  {'pass':>5} {'fail':>5} {'refused':>7} {'skipped':>7}")
    for name, row in rows.items():
        print(f"{name:{width}}  {row['pass']:5} {row['fail']:5} {row['refused']:7} {row['skipped']:7}")
        for failure in row["failures"]:
            print(f"    sample {failure['sample']}: {failure['reason']}")
        for reason, number in row["refusals"].items() if refused else ():
            print(f"    {number}: {reason}")
    total = report["total"]
    print(f"{total['operators']} operators under {report['contract']}, torch {report['torch']}: " +
          ", ".join(f"{total[kind]} {kind}" for kind in KINDS))
    print("compared: " + ", ".join(f"{note} {number}" for note, number in total["compared"].items()))
