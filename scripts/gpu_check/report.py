"""The tables that the check prints last, and the file that it writes."""

import json
import os

from . import samples, ways


def write_json(path, result):
    temporary = f"{path}.part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(temporary, path)


def table(header, rows):
    rows = [header, *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                       for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def number(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def speed_table(rows):
    cells = []
    for row in rows:
        if "error" in row:
            cells.append([row["name"], row["error"][:60], *[""] * 11])
            continue
        cells.append([row["name"]])
        for tier in ("isobit", "exact3"):
            side = row[tier]
            cells[-1] += [number(side["ms"], 3), f"{100 * side['spread']:.0f} %", number(side["times stock"]),
                          number(side["times stock tf32"]), number(side["gflops_per_s"] / 1e3) if row["flops"] else "-"]
        cells[-1] += [number(row["stock_ms"], 3), number(row["stock deterministic_ms"], 3)]
    return table(["work", "isobit ms", "spread", "x stock", "x tf32", "TFLOP/s", "exact3 ms", "spread", "x stock", "x tf32",
                  "TFLOP/s", "stock ms", "determ. ms"], cells)


def summary(result):
    """Text, and whether every comparison of bits was equal."""
    parts = [f"isobit {result['contract']} at {result['commit']}, torch {result['torch']}, {result['device']}"]
    different = [row for row in result["sweep"] if row["verdict"] != "equal"]
    parts.append(f"operators: {len(result['sweep']) - len(different)} of {len(result['sweep'])} cases equal on CPU and device")
    parts += [f"  {row['family']} / {row['case']}: {row['verdict']}" for row in different]
    if result["samples"] is not None:
        parts.append("PyTorch's own samples: " + samples.words(result["samples"]))
    if result["ways"] is not None:
        parts.append("ways to a float: " + ways.words(result["ways"]))
    if result["training"]:
        parts.append(table(["training", "steps", "against the CPU's"],
                           [[f"{r['model']}, {r['course']}", r["steps"], r["verdict"]] for r in result["training"]]))
    if result["sanitizer"] is not None:
        parts.append("compute-sanitizer: " + ", ".join(f"{k} {v}" for k, v in result["sanitizer"].items()))
    else:
        parts.append("compute-sanitizer: not run")
    if result["speed"]:
        parts.append(speed_table(result["speed"]))
    if result["tiles"]:
        parts.append(table(["products, by tile and split", "planned ms", "best ms", "best", "bits"],
                           [[r["name"], number(r["planned_ms"], 3), number(r["best_ms"], 3), r["best"], r["verdict"]]
                            for r in result["tiles"]]))
    rows = result["training"] + result["tiles"]
    known = samples.good(result["samples"]) and ways.good(result["ways"])
    equal = not different and known and all(row["verdict"] == "equal" for row in rows)
    clean = result["sanitizer"] is None or all(v == "clean" for v in result["sanitizer"].values())
    parts.append("CPU = GPU: " + ("equal in everything compared" if equal else "DIFFERENT, see above"))
    return "\n\n".join(parts), equal and clean
