"""All executions of one model, and what comes of it.

equal             the same bits in every execution, and stock PyTorch trains it too
refused           isobit refuses an operator; all that it would refuse are listed, not the first alone
other bits        two executions differ
fails             isobit raises what is no refusal, and stock PyTorch trains the model
stock fails too   stock PyTorch cannot train it here, so nothing is said
too slow          an execution took longer than allowed
"""

import math

OUTCOMES = ("equal", "refused", "other bits", "fails", "stock fails too", "too slow")
BAD = ("other bits", "fails")

# Small models that run on the reference kernels and on three threads, too; of torch.nn it is every one.
THOROUGH = {
    "torchvision/vit",
    "torchvision/resnet (bottleneck)",
    "timm/vit_tiny_patch16_224",
    "timm/convnext_atto",
    "transformers/bert",
    "transformers/gpt2",
    "transformers/llama",
    "transformers/mixtral",
    "transformers/t5",
    "transformers/mamba",
    "monai/UNet, volumes",
    "monai/BasicUNet",
    "braindecode/EEGNet",
    "diffusers/UNet2DModel",
    "torchaudio/Conformer",
    "torch_geometric/GCN",
    "torch_geometric/GAT",
    "peft/LoRA",
}


def executions(key, isas):
    """[(instruction set, threads)]: the first is what the others are compared with."""
    isas = [isa for isa in ("avx2", "avx512") if isa in isas]
    best = isas[-1] if isas else "reference"
    chosen = [(best, 1), (isas[0] if isas else best, 2)]
    if key in THOROUGH or key.startswith("torch.nn/"):
        chosen += [("reference", 1), (best, 3)]
    return chosen


def labels(chosen):
    return [f"{isa}, {threads} thread{'s' * (threads > 1)}" for isa, threads in chosen]


def examine(key, ask, isas):
    """The row of one model. ask(work, isa, threads, timed): the worker's answer."""
    stock = ask("execute", "stock", 1, True)
    if "fingerprint" not in stock:
        return {
            "outcome": "too slow" if "slow" in stock else "stock fails too",
            "message": stock.get("error", "in stock PyTorch"),
        }
    chosen = executions(key, isas)
    found = []
    for isa, threads in chosen:
        answer = ask("execute", isa, threads, not found)
        if "fingerprint" not in answer:
            return _stopped(answer, labels([(isa, threads)])[0], ask)
        found.append(answer)
    row = {
        "executions": labels(chosen),
        "parameters": found[0]["parameters"],
        "loss": _number(found[0]["loss"]),
        "seconds": found[0]["seconds"],
        "stock_seconds": stock["seconds"],
    }
    for label, answer in zip(row["executions"], found, strict=True):
        if answer["fingerprint"] != found[0]["fingerprint"]:
            return {"outcome": "other bits", "message": f"{row['executions'][0]} against {label}", **row}
    return {"outcome": "equal", "fingerprint": found[0]["fingerprint"][:16], **row, "gradients": ask("gradients", "", 1, False)}


def _stopped(answer, label, ask):
    if "slow" in answer:
        return {"outcome": "too slow", "message": label}
    if "refused" not in answer:
        return {"outcome": "fails", "message": f"{label}: {answer['error']}"}
    found = ask("probe", "", 1, False)
    first = {"operator": answer["refused"], "message": answer["message"], "stage": ""}
    refusals = found.get("refusals") or [first]
    return {
        "outcome": "refused",
        "message": answer["message"],
        "refusals": refusals,
        "stopped": found.get("stopped") or found.get("error", ""),
    }


def _number(value):
    return value if math.isfinite(value) else str(value)


def is_bad(row):
    """Whether the row says that isobit breaks its promise, or computes something else than stock."""
    return row["outcome"] in BAD or row.get("gradients", {}).get("within") is False
