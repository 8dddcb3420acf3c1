"""docs/coverage.md, made from docs/coverage.json (scripts/coverage)."""

import textwrap

CLASSES = ("certified", "exact", "composite", "refused")
WIDTH = 120

HEAD = """\
# How much of PyTorch is covered

`scripts/coverage` writes this page from [coverage.json](coverage.json); a test checks that it is current. It is for {contract},
torch {torch}, on the CPU.

## Operators

`isobit ops --coverage` prints the first table; [the guard](guard.md) explains the classes. A row counts the overloads of a
family, in-place and out= forms as separate overloads.

"""

SAMPLES = """
## PyTorch's own samples

`scripts/op-samples` calls the operators of PyTorch's operator database (`torch.testing`) on its float32 samples, with the
reference kernels and those of every instruction set that the machine has (of this count: AVX2), on 1, 2 and 3 threads.
A sample passes if all results and gradients have the same bits
in all of them, with other strides, and (where stock computes sample by sample) in two parts of a batch; and if values and
gradients are within the bound from stock in float64 that `scripts/op_samples/comparison.py` states. Any outcome other than
a pass or a refusal by isobit is a failure.

The samples are small, most with less than a thousand elements, so few are split among threads. `scripts/op-samples --large`
makes them about a hundred times larger where their sizes are not fixed (not counted here). The tests of the operators use
larger shapes too (`tests/aten`, `tests/kernels`). [Coverage on a device](coverage-device.md) has the same samples on a device.

"""

TRAINING = """
## Modules and optimizers

Each module of `torch.nn` and each optimizer of `torch.optim` ran in float32 under the switch: forward, backward and a step,
in every case of PyTorch's module and optimizer databases (or in one of ours if they have none). It works if the reference,
AVX2 (and AVX-512, where the machine has it) kernels give the same bits on 1, 2 and 3 threads.
The single-tensor, foreach and fused forms of an optimizer
gave the same bits.

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
    text += _row(["pass", total["pass"], f"{len(whole)} with all samples, {len(part)} with some"])
    text += _row(["refused", total["refused"], f"{len(none)} with all samples"])
    text += _row(["fail", total["fail"], len(failed)])
    text += _row(["skipped: stock raises", total["skipped"], sum(not row["pass"] and not row["refused"] and not row["fail"]
                                                                 for row in rows.values())])
    compared = total["compared"]
    text += "\n" + _wrapped(f"Other comparisons: values with float64 in {compared.get('values', 0)} samples, gradients in "
                            f"{compared.get('gradients', 0)}, other strides in {compared.get('strides', 0)}, parts of a batch in "
                            f"{compared.get('batch', 0)}. {compared.get('draws', 0)} samples draw random numbers and have no "
                            f"values to compare with. {compared.get('backward', 0)} are refused only in backward.")
    text += f"\nWhen these samples ran, the classes had {_counts(samples['with'])} operators.\n"
    for title, names in (("All samples pass", whole), ("Some samples pass, the others are refused", part), ("Failures", failed)):
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
