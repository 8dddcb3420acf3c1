"""Every tile and split of k of the ordered products, timed: what the plan's rates (src/kernels/cuda/product_plan.h) are
fitted by. Each must give the planned one's bits."""

import itertools
import statistics

import torch

from . import speed
from .data import first_difference

TILES = ("large", "medium", "small", "skinny")
WHOLE = 1 << 21
SPLITS = (1, 2, 4, 8, 16, 64, WHOLE)


def splits(terms):
    """Leaves of a chunk that differ for a sum of so many terms."""
    leaves = -(-terms // 512)
    return [split for split in SPLITS if split < leaves] + [WHOLE]


def works(scale, device):
    """(name, make, flops, terms of a sum, tiles): products and convolutions of part speed, and slim products."""
    for name, make, flops, _ in speed.products(scale, device):
        n = round((flops / 2) ** (1 / 3))
        yield name, make, flops, n, 4
    for m, n, k in ((64, 512, 784), (1792, 512, 128), (512, 128, 1792), (256, 10, 4096)):
        m, n, k = (max(8, int(x * min(1, 4 * scale))) for x in (m, n, k))

        def make(m=m, n=n, k=k):
            i = speed.Inputs(f"slim {m} {n} {k}")
            a, b = i.normal(m, k).to(device), i.normal(k, n).to(device)
            return lambda: torch.mm(a, b)
        yield f"mm {m} x {n} x {k}", make, 2 * m * n * k, k, 4
    for name, make, flops, _ in speed.convolutions(scale, device):
        before, after = map(int, name.split()[1].split("->"))  # channels
        if name.endswith("weight gradient"):
            terms = flops // (2 * before * after * 9)  # positions
        else:
            terms = 9 * (before if name.endswith("forward") else after)
        yield name, make, flops, terms, 3


def measure(library, device, scale, rounds, clock, say, every=1):
    """One row a work, of every so manyth."""
    rows = []
    for name, make, flops, terms, tiles in itertools.islice(works(scale, device), 0, None, every):
        forced = [(-1, 0)] + [(tile, split) for tile in range(tiles) for split in splits(terms)]
        with library.enabled():
            function = make()
            expected = function()
            times = {plan: [] for plan in forced}
            wrong = {}
            for turn in range(rounds + 1):
                for plan in forced:
                    library.force_plan(*plan)
                    if turn > 0:
                        times[plan].append(clock.time(function))
                    elif words := _difference(expected, function()):
                        wrong[plan] = words
            library.force_plan()
        median = {plan: statistics.median(values) for plan, values in times.items()}
        best = min(forced[1:], key=median.get)
        planned = median[-1, 0]
        rows.append({"name": name, "flops": flops, "planned_ms": planned, "best_ms": median[best], "best": label(best),
                     "all_ms": {label(plan): median[plan] for plan in forced},
                     "verdict": "equal" if not wrong else f"{label(next(iter(wrong)))}: {next(iter(wrong.values()))}"})
        say(f"{name}: planned {planned:.3f} ms, best {median[best]:.3f} ({label(best)})"
            + ("" if not wrong else f", DIFFERS: {rows[-1]['verdict']}"))
    return rows


def _difference(expected, found):
    pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
    return next((words for a, b in pairs if a is not None and (words := first_difference(a, b))), None)


def label(plan):
    tile, split = plan
    if tile < 0:
        return "planned"
    return f"{TILES[tile]}, {'whole' if split == WHOLE else f'{split} leaves'}"
