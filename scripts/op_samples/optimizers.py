"""Every optimizer of torch.optim under the switch: three steps of a small model in every variant and every form.

The settings are those of PyTorch's optimizer database. The single-tensor, foreach and fused forms of one setting must give
the same bits.
"""

import warnings

import torch
from torch import nn

from op_samples import comparison
from op_samples.calls import first_line
from op_samples.modules import reason_of, row_of
from op_samples.variants import each_variant

FORMS = ("single", "foreach", "fused")


def _steps(kind, settings, device):
    torch.manual_seed(2)
    matrices = kind is torch.optim.Muon  # takes nothing else
    model = nn.Sequential(nn.Linear(7, 6, bias=not matrices), nn.Tanh(), nn.Linear(6, 3, bias=not matrices))
    sparse = kind is torch.optim.SparseAdam
    if sparse:
        model = nn.Embedding(9, 4, sparse=True)
    x = torch.arange(6) if sparse else torch.rand(5, 7)
    if device is not None:
        model, x = model.to(device), x.to(device)
    optimizer = kind(model.parameters(), **settings)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    state = [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, torch.Tensor)]
    return [value.detach().clone() for value in [*model.parameters(), *state]]


def outcome(kind, settings, device=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _steps(kind, {key: value.clone() if isinstance(value, torch.Tensor) else value
                                 for key, value in settings.items()}, device)
        except Exception as error:  # the verdict is the caller's
            return first_line(error)


def database():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_optimizers import optim_db
    return optim_db


def forms(entry, settings):
    if any(form in settings for form in ("foreach", "fused", "differentiable", "capturable")):
        return [("given", settings)]
    found = [("single", {**settings, "foreach": False} if "foreach" in entry.supported_impls else settings)]
    if "foreach" in entry.supported_impls:
        found.append(("foreach", {**settings, "foreach": True}))
    if "cpu" in entry.supports_fused_on:
        found.append(("fused", {**settings, "fused": True}))
    return found


def table():
    flat = []
    for entry in database():
        for given in entry.optim_inputs_func(device="cpu"):
            if given.kwargs.get("capturable"):
                continue  # of CUDA graphs
            flat += [(entry.name, entry.optim_cls, given.desc, form, settings)
                     for form, settings in forms(entry, given.kwargs)]
    outcomes = [[] for _ in flat]
    with each_variant() as places:
        for _ in places:
            for i, (_, kind, _, _, settings) in enumerate(flat):
                outcomes[i].append(outcome(kind, settings))
    return _rows(flat, outcomes)


def _rows(flat, outcomes):
    reasons, single = {}, {}
    for (name, _, setting, form, _), found in zip(flat, outcomes, strict=True):
        reason = reason_of(found)
        if form == "single":
            single[name, setting] = found[0]
        elif not reason and form in FORMS and not isinstance(single[name, setting], str):
            count = len(list(single[name, setting]))
            different = comparison.lists_differ(single[name, setting][:count], found[0][:count])
            reason = different and f"FAILS: {form} against single, {setting}: {different}"
        if reason and not reason.startswith("FAILS"):
            reason = f"{form if form in FORMS[1:] else setting}: {reason}"
        reasons.setdefault(name, []).append(reason)
    return [row_of(name, found) for name, found in reasons.items()]
