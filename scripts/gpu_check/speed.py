"""Speed against stock PyTorch on the same device: both sides in one run, interleaved, medians of device time.

Stock in three settings: TF32 off, TF32 on (PyTorch's default for convolutions), deterministic algorithms with TF32
off. Data larger than the L2 cache, or the cache flushed before each timing; the flush lasts longer than a call's way through the
host, so that a short kernel's time is the device's. A row's roofline is the larger of
flops / peak and bytes / bandwidth for a binary32 machine without tensor cores.
"""

import contextlib
import statistics
import time

import torch
import torch.nn.functional as F

from . import models
from .data import Inputs

SETTINGS = ("stock", "stock tf32", "stock deterministic")
TIERS = {"isobit": "ordered", "exact3": "exact3"}


def configure(setting):
    tf32 = setting == "stock tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = setting != "stock deterministic"
    torch.use_deterministic_algorithms(setting == "stock deterministic", warn_only=True)


class DeviceClock:
    """Milliseconds of device time of one call, by CUDA events; the L2 cache is flushed before."""

    def __init__(self, device):
        self._flush = torch.empty(1 << 30, dtype=torch.uint8, device=device)

    def time(self, function):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self._flush.zero_()
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)


class HostClock:
    """For the dry run without a GPU: the code runs, the figures mean nothing."""

    def time(self, function):
        begin = time.perf_counter()
        function()
        return (time.perf_counter() - begin) * 1e3


def interleaved(library, clock, make, rounds):
    """Times of isobit's two tiers of products and of each stock setting; make() builds the function to time afresh for each.

    Each turn begins with a call that does not count: the first one after a change of sides looks up kernels and plans anew, and a
    device that has finished what was queued waits for it. No side is always the first."""
    @contextlib.contextmanager
    def on(side):
        if side in TIERS:
            with library.enabled(TIERS[side]):
                yield
        else:
            configure(side)
            yield

    sides = {}
    for side in (*TIERS, *SETTINGS):
        with on(side):
            sides[side] = make()
            sides[side]()
    times = {side: [] for side in sides}
    for turn in range(rounds):
        order = list(sides.items())
        for side, function in order[turn % len(order):] + order[:turn % len(order)]:
            with on(side):
                function()
                times[side].append(clock.time(function))
    configure("stock")
    return times


def row(name, times, flops, bytes_moved, machine):
    result = {"name": name, "flops": flops, "bytes": bytes_moved}
    for side in TIERS:
        ours = statistics.median(times[side])
        quartiles = statistics.quantiles(times[side], n=4) if len(times[side]) > 1 else [ours] * 3
        result[side] = {"ms": ours, "spread": (quartiles[2] - quartiles[0]) / ours, "gflops_per_s": flops / ours / 1e6,
                        "gbytes_per_s": bytes_moved / ours / 1e6}
        for setting in SETTINGS:  # above 1: isobit is faster
            result[side]["times " + setting] = statistics.median(times[setting]) / ours
    if machine:
        result["roofline_ms"] = max(flops / machine["flops_per_s"], bytes_moved / machine["bytes_per_s"]) * 1e3
    for setting in SETTINGS:
        result[setting + "_ms"] = statistics.median(times[setting])
    return result


def products(scale, device):
    for n in (1024, 2048, 4096, 8192):
        n = max(16, int(n * scale))
        def make(n=n):
            a, b = (Inputs(f"{side}{n}").normal(n, n).to(device) for side in "ab")
            return lambda: torch.mm(a, b)
        yield f"mm {n}^3", make, 2 * n**3, 12 * n * n


def convolutions(scale, device):
    batch = max(1, int(64 * scale))
    for ci, co, size, stride in [(64, 64, 56, 1), (64, 128, 56, 2), (128, 128, 28, 1), (256, 256, 14, 1), (512, 512, 7, 1)]:
        ci, co = max(2, int(ci * min(1, scale * 4))), max(2, int(co * min(1, scale * 4)))
        out = (size + 2 - 3) // stride + 1
        flops = 2 * batch * co * out * out * ci * 9
        moved = 4 * (batch * ci * size * size + batch * co * out * out + co * ci * 9)
        for what in ("forward", "input gradient", "weight gradient"):
            def make(ci=ci, co=co, size=size, stride=stride, out=out, what=what):
                i = Inputs(f"conv {ci} {size}")
                x, w = i.normal(batch, ci, size, size).to(device), i.normal(co, ci, 3, 3).to(device)
                dy = i.normal(batch, co, out, out).to(device)
                arguments = ([0], [stride, stride], [1, 1], [1, 1], False, [0, 0], 1)
                if what == "forward":
                    return lambda: F.conv2d(x, w, stride=stride, padding=1)
                mask = [what == "input gradient", what == "weight gradient", False]
                return lambda: torch.ops.aten.convolution_backward(dy, x, w, *arguments, mask)
            yield f"conv3x3 {ci}->{co} {size}x{size}/{stride} {what}", make, flops, moved


def step(make_model, shape, classes, device):
    def make():
        torch.manual_seed(3)
        model = make_model().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
        i = Inputs(f"step {shape}")
        x, labels = i.normal(*shape).to(device), i.labels(classes, shape[0]).to(device)

        def run():
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x), labels).backward()
            optimizer.step()
        return run
    return make


def steps(scale, device):
    batch = lambda n: max(2, int(n * scale))
    size = 224 if scale >= 1 else 32
    width = 64 if scale >= 1 else 4
    yield "step mlp, batch 64", step(models.mlp, (batch(64), 1, 28, 28), 10, device), 0, 0
    yield "step lenet5, batch 64", step(models.lenet5, (batch(64), 1, 28, 28), 10, device), 0, 0
    yield "step resnet18 32 px, batch 128", step(lambda: models.resnet18(width=width, small=True),
                                                 (batch(128), 3, 32, 32), 10, device), 0, 0
    yield f"step resnet18 {size} px, batch 64", step(lambda: models.resnet18(width=width, classes=1000),
                                                     (batch(64), 3, size, size), 1000, device), 0, 0
    tokens, blocks = (512, 12) if scale >= 1 else (16, 1)
    yield f"step gpt2 of {blocks} blocks, {batch(8)} x {tokens} tokens", token_step(blocks, batch(8), tokens, device), 0, 0


def token_step(blocks, batch, tokens, device):
    def make():
        torch.manual_seed(3)
        words = 50257 if blocks > 1 else 100
        model = models.Gpt(blocks, words, tokens, 768 if blocks > 1 else 32, 12 if blocks > 1 else 2).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
        x = Inputs(f"tokens {batch} {tokens}").labels(words, batch * tokens).reshape(batch, tokens).to(device)

        def run():
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
            optimizer.step()
        return run
    return make


def measure(library, device, scale, rounds, machine, clock, say):
    rows = []
    smaller = 4 if scale < 1 else 1  # emulated products of int8 take seconds
    for family in (products, convolutions, steps):
        for name, make, flops, moved in family(scale / smaller, device):
            try:
                result = row(name, interleaved(library, clock, make, rounds), flops, moved, machine)
                say(f"{name}: " + ", ".join(f"{side} {result[side]['ms']:.3f} ms ({result[side]['times stock']:.2f}x stock)"
                                            for side in TIERS))
            except Exception as error:
                result = {"name": name, "error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
                say(f"{name}: {result['error']}")
            rows.append(result)
    return rows
