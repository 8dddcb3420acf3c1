"""One execution of a model: two steps of AdamW, and a fingerprint of what came out. Runs in a process of its own."""

import contextlib
import hashlib
import json
import time
import warnings

import torch

import isobit
from model_runs.entries import loss_of

STEPS = 2
TIMED = 2  # further steps; the one that took least of the processor counts, since the machine may be busy


@contextlib.contextmanager
def switch(isa):
    """The switch with that instruction set; "stock": PyTorch as it is."""
    if isa == "stock":
        yield
    else:
        with isobit.enabled(isa):
            yield


def call(case):
    output = case.model(**case.inputs) if isinstance(case.inputs, dict) else case.model(*case.inputs)
    return (case.loss or loss_of)(output)


def optimizer_of(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3, weight_decay=0.01)


def step(case, optimizer):
    optimizer.zero_grad()
    loss = call(case)
    loss.backward()
    optimizer.step()
    return loss.detach()


def fingerprint(model, losses):
    """SHA-256 of all weights and buffers, by name, and of the losses' bits."""
    digest = hashlib.sha256()
    with isobit.disabled():  # nothing is computed here
        for name, value in [*model.state_dict().items(), *((f"loss {i}", loss) for i, loss in enumerate(losses))]:
            if isinstance(value, torch.Tensor):
                digest.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
                digest.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def execute(entry, isa, threads, timed=False):
    """{"fingerprint", "loss", "parameters", "seconds" (of a step, if timed)}; what goes wrong raises."""
    torch.set_num_threads(threads)
    with switch(isa):
        isobit.seed(1)
        case = entry.make()
        case.model.train()
        before = fingerprint(case.model, ())
        optimizer = optimizer_of(case.model)
        losses = [step(case, optimizer) for _ in range(STEPS)]
        found = {
            "fingerprint": fingerprint(case.model, losses),
            "loss": float(losses[-1]),
            "parameters": sum(p.numel() for p in case.model.parameters()),
        }
        if fingerprint(case.model, ()) == before:
            raise ValueError("two steps changed no weight")
        if timed:
            seconds = []
            for _ in range(TIMED):
                begin = time.process_time()
                step(case, optimizer)
                seconds.append(time.process_time() - begin)
            found["seconds"] = min(seconds)
    return found


def outcome(function, *arguments, **keywords):
    """What the function found, or {"refused": operator, "message"} or {"error": first line}."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*arguments, **keywords)
        except isobit.RefusedError as refused:
            return {"refused": refused.operator, "message": first_line(refused)}
        except BaseException as error:  # the verdict is for the caller; a library's sys.exit, too
            return {"error": f"{type(error).__name__}: {first_line(error)}"}


def first_line(error):
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def as_line(found):
    return json.dumps(found) + "\n"
