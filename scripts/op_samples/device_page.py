"""docs/coverage-device.md, made from docs/coverage-device.json (scripts/coverage --emulate)."""

import collections

from op_samples.page import _row, _wrapped

HEAD = """\
# How much of PyTorch is covered on a device

**On the emulated device, not on hardware.** `scripts/coverage --emulate` writes this page from
[coverage-device.json](coverage-device.json); a test checks that it is current. It is for {contract}, torch {torch}. The kernels
are those of a GPU, run thread by thread on the CPU. To PyTorch the device looks like one with CUDA and cuDNN, with kernels
registered where a PyTorch with CUDA has them ([GPUs](gpu.md)). On a machine with a GPU, `scripts/gpu-check` compares the same
samples; [an H100](gpu.md#what-ran-on-hardware) failed none.

The device must do what the CPU does ([coverage](coverage.md)): results, gradients and in-place forms with the CPU's bits, the
result on the device, the same number of random numbers drawn, and none of stock's arithmetic for devices reached. Any other
outcome, except a refusal by isobit, is a failure.

"""


def summary(report):
    """What scripts/op-samples --emulate found, as far as the page needs it."""
    rows = report["operators"]
    short = {name: {kind: row[kind] for kind in ("pass", "fail", "refused", "cpu", "skipped", "large")}
             for name, row in sorted(rows.items())}
    reasons = collections.defaultdict(list)
    for name, row in rows.items():
        for reason in row["device_refusals"]:
            reasons[_short(reason)].append(name)
    return {"elements": report["elements"], "total": report["total"], "operators": short,
            "refusals": {reason: sorted(set(names)) for reason, names in sorted(reasons.items())}}


def _short(reason):
    return reason.removeprefix("isobit: ").split(" under isobit-")[0]


def render(result):
    samples = result["samples"]
    total, rows = samples["total"], samples["operators"]
    text = HEAD.format(contract=result["contract"], torch=result["torch"])
    text += _samples(samples, total, rows)
    text += "\n## Modules and optimizers\n\nForward, backward and a step ran in every case that works on the CPU.\n\n"
    for kind, title in (("modules", "torch.nn"), ("optimizers", "torch.optim"), ("capturable", "torch.optim, capturable")):
        text += _training(title, result[kind]) + "\n"
    return text.rstrip("\n") + "\n"


def _samples(samples, total, rows):
    whole = [name for name, row in rows.items() if row["pass"] and not row["refused"] and not row["fail"]]
    part = [name for name, row in rows.items() if row["pass"] and row["refused"] and not row["fail"]]
    none = [name for name, row in rows.items() if row["refused"] and not row["pass"] and not row["fail"]]
    unseen = [name for name, row in rows.items() if row["large"] and not row["pass"] and not row["refused"] and not row["fail"]]
    failed = [name for name, row in rows.items() if row["fail"]]
    compared = total["compared"]
    text = "## PyTorch's own samples\n\n" + _row(["", "samples", "operators"]) + _row(["---", "---:", "---:"])
    text += _row(["equal bits", total["pass"], f"{len(whole)} with all samples, {len(part)} with some"])
    text += _row(["refused only on the device", total["refused"], f"{len(none)} with all samples"])
    text += _row(["fail", total["fail"], len(failed)])
    text += _row([f"left out: more than {samples['elements']} elements", total["large"], f"{len(unseen)} with all samples"])
    text += _row(["refused on the CPU too", total["cpu"], ""])
    text += _row(["skipped: stock raises, or no such tensors on a device", total["skipped"], ""])
    text += "\n" + _wrapped(f"Of the samples with equal bits, {compared.get('gradients', 0)} have gradients and "
                            f"{compared.get('in place', 0)} an in-place form. "
                            f"{compared.get('backward', 0)} of the refused samples are refused only in backward.")
    if samples["refusals"]:
        text += "\n" + _row(["refused on the device", "operators"]) + _row(["---", "---"])
        for reason, names in samples["refusals"].items():
            name, _, rest = reason.partition(" ")
            text += _row([f"`{name}` {rest}", " ".join(names)])
    for title, names in (("Failures", failed), ("Not tested: every sample is too large", unseen)):
        if names:
            text += f"\n**{title}**: " + f"{len(names)}\n\n" + _wrapped(", ".join(f"`{name}`" for name in names))
    return text


def _training(title, rows):
    works = sum(row["verdict"] == "works" for row in rows)
    text = _row([f"{title}: {len(rows)}", ""]) + _row(["---", "---"])
    text += _row(["single and foreach alike" if "capturable" in title else "the CPU's bits", works])
    grouped = collections.defaultdict(list)
    for row in rows:
        if row["verdict"] != "works":
            words = {"partly": "works but for", "refused": "refused", "fails": "FAILS"}[row["verdict"]]
            grouped[f"{words}: {_short(row['reasons'][0]).removeprefix('FAILS: ')}"].append(row["name"])
    for reason, names in sorted(grouped.items()):
        text += _row([" ".join(names), reason])
    return text
