"""A model's training step, stock and isobit in turns in one process: scripts/models --time.

Each side has a model of its own, made alike. A turn makes one step that does not count, for the switch between the sides turns
out the processor's caches, and three that do (fewer once they took a second); the fastest is the turn's. One thread; time
of the processor.
"""

import math
import statistics
import sys
import time

ROUNDS = 15
_COUNTED = 3
_ENOUGH = 1.0  # seconds: of long steps fewer do


def times(entry, count=ROUNDS):
    """{"stock_seconds", "seconds": medians of the turns; "ratio": the median of the rounds' ratios; "spread": their
    interquartile range; "rounds": how many}. What goes wrong raises."""
    import torch

    from model_runs.execute import step

    torch.set_num_threads(1)
    sides = {isa: _side(entry, isa) for isa in ("stock", "auto")}
    rounds = []
    for _ in range(count):
        rounds.append([_turn(step, isa, side) for isa, side in sides.items()])
    ratios = [ours / stock for stock, ours in rounds]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "stock_seconds": statistics.median(stock for stock, _ in rounds),
        "seconds": statistics.median(ours for _, ours in rounds),
        "ratio": statistics.median(ratios),
        "spread": high - low,
        "rounds": count,
    }


def _side(entry, isa):
    import isobit
    from model_runs.execute import optimizer_of, step, switch

    with switch(isa):
        isobit.seed(1)
        case = entry.make()
        case.model.train()
        optimizer = optimizer_of(case.model)
        for _ in range(2):
            step(case, optimizer)
    return case, optimizer


def _turn(step, isa, side):
    from model_runs.execute import switch

    seconds = []
    with switch(isa):
        step(*side)
        for _ in range(_COUNTED):
            begin = time.process_time()
            step(*side)
            seconds.append(time.process_time() - begin)
            if sum(seconds) > _ENOUGH:
                break
    return min(seconds)


def show(rows):
    """A line for each library and one for all: how many models, the geometric mean of the ratios, how many above 1 and 1.1."""
    libraries = {}
    for row in rows:
        if "ratio" in row:
            libraries.setdefault(row["library"], []).append(row["ratio"])
    if len(libraries) > 1:
        libraries["all"] = [ratio for ratios in libraries.values() for ratio in ratios]
    for library, ratios in libraries.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{library:30} {len(ratios):4} models  mean {mean:.2f}  above 1: {sum(r > 1 for r in ratios)}, "
              f"above 1.1: {sum(r > 1.1 for r in ratios)}, largest {max(ratios):.2f}")


def note(row):
    """What is printed for a model as it is done."""
    if "ratio" not in row:
        return "no time: " + (row.get("error") or row.get("refused") or f"more than {row.get('slow', 0):.0f} s")
    return (f"{row['ratio']:.2f} of stock's time (spread {row['spread']:.2f}; {row['stock_seconds'] * 1e3:.2f} and "
            f"{row['seconds'] * 1e3:.2f} ms)")


def progress(place, count, row, left):
    print(f"[{place}/{count}] {row['library']}/{row['name']}: {note(row)}; {left / 60:.0f} min left", file=sys.stderr, flush=True)
