"""docs/coverage.md, made from docs/coverage.json (scripts/coverage)."""

import textwrap

CLASSES = ("certified", "exact", "composite", "refused")
WIDTH = 120

HEAD = """\
# What of PyTorch is covered

Made by `scripts/coverage` from [coverage.json](coverage.json); a test sees that it is so. Under {contract}, torch {torch}, on
the CPU.

## Operators

`isobit ops --coverage` prints the first table; [the guard](guard.md) says what the classes mean. One row holds the overloads
of a family, in-place and out= forms counted singly.

"""

SAMPLES = """
## PyTorch's own samples

`scripts/op-samples` calls the operators of PyTorch's operator database (`torch.testing`) on its float32 samples, with the
reference, AVX2 and AVX-512 kernels on 1, 2 and 3 threads. A sample passes where all results and gradients have the same
bits in all of them, on other strides, and (where stock works sample by sample) in two parts of a batch; and where values
and gradients are within the bound of stock in float64 that `scripts/op_samples/comparison.py` states. Anything but a pass
or isobit's refusal is a failure.

The samples are small, most of less than a thousand elements: few are cut among threads. `scripts/op-samples --large` makes
them some hundred times larger where their sizes are not written out (not counted here); larger shapes are also in the tests
of the operators (`tests/aten`, `tests/kernels`). The same samples on a device: [coverage on a device](coverage-device.md).

"""

TRAINING = """
## Modules and optimizers

Each module of `torch.nn` was made, and each optimizer of `torch.optim` run, in float32 under the switch: forward, backward
and a step, in every case of PyTorch's module and optimizer databases (or one of ours where they have none), with the
same bits from the reference, AVX2 and AVX-512 kernels on 1, 2 and 3 threads. The single-tensor, foreach and fused forms of
an optimizer gave the same bits.

"""


def render(result):
    text = HEAD.format(**result["operators"])
    text += _families(result["operators"])
    text += TRAINING + _training("torch.nn", result["modules"]) + "\n" + _training("torch.optim", result["optimizers"])
    return text + SAMPLES + _samples(result["samples"])


def _row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def _families(operators):
    text = _row(["family", *CLASSES]) + _row(["---", *["---:"] * 4])
    for row in operators["families"]:
        text += _row([row["family"], *[row[kind] for kind in CLASSES]])
    text += _row(["**aten:: in all**", *[operators["aten"][kind] for kind in CLASSES]])
    return text + _row(["**all namespaces**", *[operators["all"][kind] for kind in CLASSES]])


def _wrapped(text):
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"


def _samples(samples):
    total, rows = samples["total"], samples["operators"]
    text = _row(["", "samples", "operators"]) + _row(["---", "---:", "---:"])
    whole = [name for name, row in rows.items() if row["pass"] and not row["refused"] and not row["fail"]]
    none = [name for name, row in rows.items() if row["refused"] and not row["pass"] and not row["fail"]]
    part = [name for name, row in rows.items() if row["pass"] and row["refused"] and not row["fail"]]
    failed = [name for name, row in rows.items() if row["fail"]]
    text += _row(["pass", total["pass"], f"{len(whole)} all, {len(part)} some of them"])
    text += _row(["refused", total["refused"], f"{len(none)} all of them"])
    text += _row(["fail", total["fail"], len(failed)])
    text += _row(["skipped: stock raises", total["skipped"], sum(not row["pass"] and not row["refused"] and not row["fail"]
                                                                 for row in rows.values())])
    compared = total["compared"]
    text += "\n" + _wrapped(f"Compared besides the variants: values with float64 {compared.get('values', 0)}, gradients "
                            f"{compared.get('gradients', 0)}, other strides {compared.get('strides', 0)}, parts of a batch "
                            f"{compared.get('batch', 0)} samples; {compared.get('draws', 0)} draw random numbers (no values "
                            f"to compare with). {compared.get('backward', 0)} are refused in backward only.")
    text += f"\nTaken when {_counts(samples['with'])} operators were in their classes.\n"
    for title, names in (("All samples pass", whole), ("Some pass, the others are refused", part), ("Failures", failed)):
        if names:
            text += f"\n**{title}**: " + f"{len(names)}\n\n" + _wrapped(", ".join(f"`{name}`" for name in names))
    return text


def _counts(counts):
    return ", ".join(f"{counts[kind]} {kind}" for kind in CLASSES)


def _training(title, rows):
    works = [row["name"] for row in rows if row["verdict"] == "works"]
    text = _row([f"{title}: {len(rows)}", ""]) + _row(["---", "---"])
    text += _row([f"work: {len(works)}", " ".join(works)])
    for verdict in ("partly", "refused", "fails"):
        grouped = {}
        for row in rows:
            if row["verdict"] == verdict:
                grouped.setdefault(_reason(row["reasons"]), []).append(row["name"])
        for reason, names in grouped.items():
            words = {"partly": "works but for", "refused": "refused", "fails": "FAILS"}[verdict]
            text += _row([" ".join(names), f"{words}: {reason}"])
    return text


def _reason(reasons):
    """The first refusal in few words: `aten::conv3d` is not certified."""
    first = reasons[0]
    for setting in ("default: ",):
        first = first.removeprefix(setting)
    first = first.split(" under isobit-")[0]
    name, _, rest = first.partition(" ")
    return f"`{name}` {rest}" if "::" in name else first
