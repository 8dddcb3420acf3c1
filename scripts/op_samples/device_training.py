"""Every module of torch.nn and optimizer of torch.optim on a device: the bits of the same step on the CPU.

The cases are those of op_samples.modules and op_samples.optimizers. An optimizer runs as given (which for CUDA tensors is the
foreach form), single, foreach and fused. What is not covered on the CPU is not asked of the device. Capturable forms, which
the CPU does not have, only have to run: single and foreach with the same bits.
"""

import dataclasses

import isobit
from op_samples import comparison, modules, optimizers
from op_samples.calls import REFUSAL
from op_samples.device import moved, to_host
from op_samples.samples import copy, map_tensors

NOT_CAPTURABLE = ("unexpected keyword argument 'capturable'", "not supported")


def reason_of(cpu, there):
    """ "" where the device gave the CPU's bits; None where the CPU has none; else why not."""
    if isinstance(cpu, str):
        return None
    if isinstance(there, str):
        return there.removeprefix(REFUSAL) if there.startswith(REFUSAL) else f"FAILS: {there}"
    different = comparison.lists_differ(to_host(cpu), to_host(there))
    return different and f"FAILS: CPU against device: {different}"


def module_rows(device, names=None):
    rows = []
    for name, some in modules.all_cases().items():
        if names and name not in names:
            continue
        pairs = [(make, copy(inputs), map_tensors(lambda tensor: moved(tensor, device), inputs)) for make, inputs in some]
        reasons = []
        with isobit.enabled():
            for make, here, there in pairs:
                cpu = modules.outcome(make, here)
                reasons.append(reason_of(cpu, "" if isinstance(cpu, str) else modules.outcome(make, there, device)))
        rows += _row(name, reasons)
    return rows


def _row(name, reasons):
    asked = [reason for reason in reasons if reason is not None]
    return [modules.row_of(name, asked)] if asked else []


def optimizer_rows(device, names=None):
    rows = []
    for entry in optimizers.database():
        if names and entry.name not in names:
            continue
        reasons = []
        with isobit.enabled():
            for given in entry.optim_inputs_func(device="cpu"):
                if given.kwargs.get("capturable"):
                    continue
                for form, settings in [("default", given.kwargs), *optimizers.forms(entry, given.kwargs)]:
                    if form == "fused" and device.partition(":")[0] not in entry.supports_fused_on:
                        continue  # PyTorch has no such form there
                    cpu = optimizers.outcome(entry.optim_cls, settings)
                    there = "" if isinstance(cpu, str) else optimizers.outcome(entry.optim_cls, settings, device)
                    reason = reason_of(cpu, there)
                    reasons.append(reason and f"{form}, {given.desc or 'default'}: {reason}")
        rows += _row(entry.name, reasons)
    return rows


def capturable_rows(device, names=None):
    rows = []
    for entry in optimizers.database():
        if names and entry.name not in names:
            continue
        with isobit.enabled():
            single, foreach = (optimizers.outcome(entry.optim_cls, {"capturable": True, "foreach": foreach}, device)
                               for foreach in (False, True))
        if isinstance(single, str) and any(text in single for text in NOT_CAPTURABLE):
            continue
        reasons = [text.removeprefix(REFUSAL) if text.startswith(REFUSAL) else f"FAILS: {text}"
                   for text in (single, foreach) if isinstance(text, str)]
        reasons = reasons or [reason_of(single, foreach).replace("CPU against device", "single against foreach")]
        rows.append(modules.row_of(entry.name, reasons))
    return rows


def report(device, names=None):
    plain = lambda rows: [{**dataclasses.asdict(row), "reasons": list(row.reasons[:3])} for row in rows]
    return {"modules": plain(module_rows(device, names)), "optimizers": plain(optimizer_rows(device, names)),
            "capturable": plain(capturable_rows(device, names))}


def print_report(found):
    for kind in ("modules", "optimizers", "capturable"):
        rows = found[kind]
        print(f"{kind}: {sum(row['verdict'] == 'works' for row in rows)} of {len(rows)} have the CPU's bits on {found['device']}")
        for row in rows:
            for reason in row["reasons"]:
                print(f"    {row['name']}, {row['verdict']}: {reason}")
