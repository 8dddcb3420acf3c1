"""scripts/op-samples: arguments, the loop over operators, what is printed."""

import argparse
import collections
import json
import os
import re
import sys
import time

import torch

import isobit
from op_samples import check, comparison, device, samples, variants

KINDS = ("pass", "fail", "refused", "skipped")
EMULATED_ELEMENTS = 2000  # a fiber for each of the device's threads


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/op-samples", description=__import__("op_samples").__doc__)
    parser.add_argument("--op", action="append", metavar="NAME", help="only this operator (may be repeated)")
    parser.add_argument("--samples", type=int, metavar="N", help="at most N of each operator's samples, evenly spread")
    parser.add_argument("--large", action="store_true", help="longer tensors: work that is cut among threads")
    parser.add_argument("--shard", default="1/1", metavar="I/N", help="every N-th operator, from the I-th on")
    parser.add_argument("--json", action="store_true", help="all counts, refusals and failures as JSON")
    parser.add_argument("--out", metavar="FILE", help="the JSON into a file as well")
    parser.add_argument("--refused", action="store_true", help="list the refusals too")
    parser.add_argument("--device", metavar="NAME", help="compare this device's bits with the CPU's, instead")
    parser.add_argument("--emulate", metavar="LIB", help="the same with the emulated cuda:0 of libisobit_torch_emulated.so")
    parser.add_argument("--elements", type=int, metavar="N",
                        help=f"with a device, samples of at most N elements ({EMULATED_ELEMENTS} if emulated)")
    parser.add_argument("--training", action="store_true",
                        help="with a device: every module of torch.nn and optimizer of torch.optim, instead of samples")
    parser.add_argument("--dtype", choices=("float32", "float64", "bfloat16", "float16"), default="float32",
                        help="the samples' type; what is compared with what: scripts/op_samples/comparison.py")
    parser.add_argument("--seconds", type=float, metavar="S", help="begin no operator later than this")
    options = parser.parse_args(arguments)
    if options.emulate:
        options.device = options.device or "cuda:0"
        options.elements = EMULATED_ELEMENTS if options.elements is None else options.elements
    if options.training and not options.device:
        parser.error("--training is for a device: --device or --emulate (on the CPU: scripts/coverage)")
    if options.dtype != "float32" and options.device:
        parser.error(f"--dtype {options.dtype} is for the CPU: a device computes float32")
    part = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", options.shard)
    if part is None or int(part[1]) > int(part[2]):
        parser.error(f"--shard {options.shard}: expected the I-th of N parts, I from 1 to N, as 2/5")
    comparison.wide = options.dtype == "float64"
    comparison.unit = {"bfloat16": 2**-8, "float16": 2**-11}.get(options.dtype)
    return options


def chosen(options):
    entries = samples.operators(options.large, getattr(torch, options.dtype))
    names = list(entries)
    if options.op:
        unknown = [name for name in options.op if name not in entries]
        if unknown:
            raise SystemExit(f"op-samples: no operator {unknown[0]!r} in the database")
        names = options.op
    shard, shards = map(int, options.shard.split("/"))
    return {name: entries[name] for name in names[shard - 1::shards]}


def judge(options):
    """The kinds of verdicts, and the function that gives them: (name, samples) -> [Verdict, ...]."""
    if options.device is None:
        return KINDS, check.check
    most = float("inf") if options.elements is None else options.elements
    stock_arithmetic = device.stock_arithmetic_of(options.emulate)
    return device.KINDS, lambda name, found: device.check(name, found, options.device, most, stock_arithmetic)


def run(options, progress=None):
    """name -> {"pass": n, ..., "failures": [...], "refusals": {...}}"""
    result = {}
    kinds, verdicts_of = judge(options)
    begin = time.monotonic()
    for name, entry in chosen(options).items():
        start = time.monotonic()
        if options.seconds is not None and start - begin > options.seconds:
            break
        try:
            found = samples.samples_of(entry, options.samples, getattr(torch, options.dtype))
        except Exception as error:  # the database needs what is not here (SciPy, a GPU)
            result[name] = {**dict.fromkeys(kinds, 0), "skipped": 1, "notes": {}, "failures": [],
                            "refusals": {f"samples: {error}"[:200]: 1}, "device_refusals": []}
            continue
        verdicts = verdicts_of(name, found)
        row = {kind: check.count(verdicts)[kind] for kind in kinds}
        row["notes"] = dict(collections.Counter(note for verdict in verdicts for note in verdict.notes))
        row["failures"] = [{"sample": sample.number, "reason": verdict.reason}
                           for sample, verdict in zip(found, verdicts, strict=True) if verdict.kind == "fail"]
        row["refusals"] = dict(collections.Counter(v.reason for v in verdicts if v.kind in ("refused", "skipped", "cpu")))
        if options.device:
            row["device_refusals"] = sorted({v.reason for v in verdicts if v.kind == "refused"})
        result[name] = row
        if progress is not None:
            progress(name, row, time.monotonic() - start)
    return result


def totals(result):
    kinds = [kind for kind in (*KINDS, "cpu", "large") if any(kind in row for row in result.values())]
    counts = {kind: sum(row[kind] for row in result.values()) for kind in kinds}
    notes = collections.Counter()
    for row in result.values():
        notes.update(row["notes"])
    return {"operators": len(result), **counts, "compared": dict(sorted(notes.items()))}


def train(options):
    """--training: the report, printed and written; whether something failed."""
    from op_samples import device_training

    report = {"contract": isobit.contract_version, "torch": torch.__version__.split("+")[0], "device": options.device,
              "emulated": bool(options.emulate), **device_training.report(options.device, options.op)}
    write(options.out, report)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        device_training.print_report(report)
    return 1 if any(row["verdict"] == "fails" for kind in ("modules", "optimizers") for row in report[kind]) else 0


def write(path, report):
    if path:
        with open(path + ".part", "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
        os.replace(path + ".part", path)


def main(arguments=None):
    options = parse(arguments)
    if options.training:
        return train(options)

    def progress(name, row, seconds):
        if sys.stderr.isatty() or row["fail"]:
            print(f"{name}: {row['pass']} pass, {row['fail']} fail, {row['refused']} refused, {seconds:.1f} s",
                  file=sys.stderr)
            for failure in row["failures"][:3]:
                print(f"    sample {failure['sample']}: {failure['reason']}", file=sys.stderr)

    result = run(options, progress)
    report = {"contract": isobit.contract_version, "torch": torch.__version__.split("+")[0],
              "variants": variants.labels(), "samples": options.samples, "dtype": options.dtype,
              "total": totals(result), "operators": result}
    if options.device:
        report.update(device=options.device, emulated=bool(options.emulate), elements=options.elements,
                      left_out=[name for name in chosen(options) if name not in result])
    write(options.out, report)
    if options.json:
        print(json.dumps(report, indent=1))
    else:
        print_table(report, options.refused)
    return 1 if report["total"]["fail"] else 0


def print_table(report, refused):
    rows = report["operators"]
    kinds = [kind for kind in report["total"] if kind in (*KINDS, "cpu", "large")]
    width = max(map(len, rows), default=8)
    print(f"{'operator':{width}}  " + " ".join(f"{kind:>7}" for kind in kinds))
    for name, row in rows.items():
        print(f"{name:{width}}  " + " ".join(f"{row[kind]:7}" for kind in kinds))
        for failure in row["failures"]:
            print(f"    sample {failure['sample']}: {failure['reason']}")
        for reason, number in row["refusals"].items() if refused else ():
            print(f"    {number}: {reason}")
    total = report["total"]
    print(f"{total['operators']} operators under {report['contract']}, torch {report['torch']}: " +
          ", ".join(f"{total[kind]} {kind}" for kind in kinds))
    print("compared: " + ", ".join(f"{note} {number}" for note, number in total["compared"].items()))
    if report.get("left_out"):
        print(f"not reached in time: {len(report['left_out'])} operators, from {report['left_out'][0]} on")
