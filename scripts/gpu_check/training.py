"""The same training on the CPU, on the device, and half on each: equal weights, losses and buffers."""

import copy

import torch
import torch.nn.functional as F

from . import models
from .data import first_difference


def train(model, optimizer, batch, first, last, device, seed=11):
    """Steps first .. last - 1 on `device`; dropout's keys come from the default CPU generator, set at each step."""
    losses = []
    model.train()
    for step in range(first, last):
        x, labels = batch(step)
        torch.manual_seed(seed * 1000003 + step)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    return losses


def moved(model, optimizer, device, make_optimizer):
    """Model and optimizer state on another device, as a checkpoint would bring them there."""
    state = copy.deepcopy(optimizer.state_dict())
    model = model.to(device)
    optimizer = make_optimizer(model)
    optimizer.load_state_dict(state)
    return model, optimizer


def plans(scale):
    steps = lambda n: max(4, int(n * scale))
    sgd = lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    adam = lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3)
    full = scale >= 1
    width, batch = (64, 64) if full else (8, 8)
    return [("mlp", models.mlp, sgd, (batch, 1, 28, 28), steps(200)),
            ("lenet5", models.lenet5, adam, (batch, 1, 28, 28), steps(200)),
            ("resnet18", lambda: models.resnet18(width=width, small=True), sgd, (16 if full else 2, 3, 32, 32), steps(100))]


def courses(library, device, scale, say):
    rows = []
    tiers = [("ordered", plan) for plan in plans(scale)] + [("exact3", plan) for plan in plans(scale)]
    for tier, (name, make, make_optimizer, shape, steps) in tiers:
        batch = models.batches(name, shape)
        label = name if tier == "ordered" else f"{name}, {tier}"
        results = {}
        for course in ("cpu", "device", "cpu then device"):
            with library.enabled(tier):
                torch.manual_seed(5)
                model = make()
                if course == "device":
                    model = model.to(device)
                optimizer = make_optimizer(model)
                places = {"cpu": ["cpu"], "device": [device], "cpu then device": ["cpu", device]}[course]
                losses = []
                for index, place in enumerate(places):
                    if index > 0:
                        model, optimizer = moved(model, optimizer, place, make_optimizer)
                    first, last = index * steps // len(places), (index + 1) * steps // len(places)
                    losses += train(model, optimizer, batch, first, last, place)
            results[course] = (losses, {k: v.detach().cpu() for k, v in model.state_dict().items()})
            say(f"{label}: {steps} steps, {course}, loss {losses[-1].item():.6f}")
        for course in ("device", "cpu then device"):
            rows.append({"model": label, "steps": steps, "course": course,
                         "verdict": compare(results["cpu"], results[course])})
    return rows


def compare(expected, found):
    for step, (a, b) in enumerate(zip(expected[0], found[0], strict=True)):
        if difference := first_difference(a, b):
            return f"loss of step {step}: {difference}"
    for key in expected[1]:
        if difference := first_difference(expected[1][key], found[1][key]):
            return f"{key}: {difference}"
    return "equal"
