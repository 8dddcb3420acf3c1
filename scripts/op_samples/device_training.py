"""Every module of torch.nn and optimizer of torch.optim on a device: the bits of the same step on the CPU.

The cases are those of op_samples.modules and op_samples.optimizers. An optimizer runs as given (which for CUDA tensors is the
foreach form), single, foreach and fused; what is not covered on the CPU is not asked of the device. Capturable forms, which
the CPU does not have, are counted apart.
"""

import torch

import isobit
from op_samples import comparison, modules, optimizers
from op_samples.calls import REFUSAL
from op_samples.device import to_host
from op_samples.samples import copy, map_tensors
from op_samples.device import moved


def reason_of(cpu, there):
    """ "" where the device gave the CPU's bits; None where the CPU has none; else why not."""
    if isinstance(cpu, str):
        return None
    if isinstance(there, str):
        return there.removeprefix(REFUSAL) if there.startswith(REFUSAL) else f"FAILS: {there}"
    different = comparison.lists_differ(to_host(cpu), to_host(there))
    return different and f"FAILS: CPU against device: {different}"


def module_rows(device):
    cases = modules.all_cases()
    reasons = {name: [] for name in cases}
    for name, some in cases.items():
        for make, inputs in some:
            here = copy(inputs)
            there = map_tensors(lambda tensor: moved(tensor, device), inputs)
            with isobit.enabled():
                cpu = modules.outcome(make, here)
                found = "" if isinstance(cpu, str) else modules.outcome(make, there, device)
            reason = reason_of(cpu, found)
            if reason is not None:
                reasons[name].append(reason)
    return [modules.row_of(name, found) for name, found in reasons.items() if found]


def optimizer_rows(device):
    rows = []
    for entry in optimizers.database():
        reasons = []
        for given in entry.optim_inputs_func(device="cpu"):
            if given.kwargs.get("capturable"):
                continue
            for form, settings in [("default", given.kwargs), *optimizers.forms(entry, given.kwargs)]:
                reason = _optimizer_reason(entry.optim_cls, settings, settings, device)
                if reason is not None:
                    reasons.append(reason and f"{form}, {given.desc}: {reason}")
        rows.append(modules.row_of(entry.name, reasons))
    return rows


def _optimizer_reason(kind, settings, on_device, device):
    with isobit.enabled():
        cpu = optimizers.outcome(kind, settings)
        there = "" if isinstance(cpu, str) else optimizers.outcome(kind, on_device, device)
    return reason_of(cpu, there)


def capturable_rows(device):
    """Against the single form on the CPU: the same formula in another order of operations, so bits may differ and only say so."""
    rows = []
    for entry in optimizers.database():
        if torch.device(device).type not in getattr(entry, "supports_capturable_on", ("cuda",)):
            continue
        for form in ("single", "foreach"):
            settings = {"capturable": True, "foreach": form == "foreach"}
            with isobit.enabled():
                there = optimizers.outcome(entry.optim_cls, settings, device)
            reason = there.removeprefix(REFUSAL) if isinstance(there, str) else ""
            rows.append({"name": entry.name, "form": form, "reason": reason})
    return rows
