"""What scripts/test-wheel runs where nothing but torch and isobit is installed: a short training, its known weights."""

import torch

import isobit

EXPECTED = "isobit-0.1:e5cd85ccfeb7b4bfd88115dcc62ddca4"

with isobit.record("runs", every=2):
    isobit.seed(3)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Flatten(),
                                torch.nn.Dropout(0.1), torch.nn.Linear(4 * 36, 5))
    optimizer = torch.optim.AdamW(model.parameters())
    data = torch.utils.data.TensorDataset(torch.randn(64, 1, 8, 8), torch.randint(5, (64,)))
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

weights = isobit.fingerprint(model)
print(f"weights {weights} on {isobit.isa()}")
if weights != EXPECTED:
    raise SystemExit(f"expected were {EXPECTED}")
