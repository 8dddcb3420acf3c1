"""Where the device's time goes in one step: kernels by name, for both tiers of products and for stock PyTorch.

Times are the kernels' own, added up over a few steps by PyTorch's profiler, so the host's share of a short step does not
show; what the device waits for the host is the difference from part speed's figures.
"""

import contextlib

import torch

from . import speed

STEPS = 3


def kernels(run):
    """Milliseconds and launches of each kernel of one call of run(), from the longest; the mean of STEPS calls."""
    from torch.profiler import ProfilerActivity, profile
    run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(STEPS):
            run()
        torch.cuda.synchronize()
    rows = [{"kernel": shortened(e.key), "ms": e.self_device_time_total / 1e3 / STEPS, "launches": e.count / STEPS}
            for e in profiler.key_averages() if e.self_device_time_total > 0]
    return sorted(rows, key=lambda row: -row["ms"])


def shortened(name):
    """A kernel's name without return type, anonymous namespaces and arguments; its template's arguments tell instances apart."""
    for word in ("void ", "(anonymous namespace)::", "isobit::", "at::native::", "cuda::", "unnamed>::"):
        name = name.replace(word, "")
    return name.split("(")[0][:110]


def measure(library, device, scale, say, top=14):
    rows = []
    for name, make, _, _ in speed.steps(scale, device):
        for side in (*speed.TIERS, "stock"):
            on = library.enabled(speed.TIERS[side]) if side in speed.TIERS else contextlib.nullcontext()
            try:
                with on:
                    speed.configure("stock")
                    found = kernels(make())
            except Exception as error:
                say(f"{name}, {side}: {type(error).__name__}: {str(error).splitlines()[0]}")
                continue
            total, launches = sum(row["ms"] for row in found), sum(row["launches"] for row in found)
            say(f"{name}, {side}: {total:.3f} ms in {launches:.0f} launches")
            for row in found[:top]:
                say(f"    {row['ms']:8.3f} ms  {row['launches']:5.0f} x  {row['kernel']}")
            rows.append({"name": name, "side": side, "ms": total, "launches": launches, "kernels": found[:40]})
    return rows
