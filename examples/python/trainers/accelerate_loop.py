"""A loop with Accelerate, recorded by isobit; killed, it resumes at the last epoch when it is run again.

python examples/python/trainers/accelerate_loop.py
isobit verify last
"""

import argparse

import accelerate
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import isobit


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=2, resume=True) as run:
        isobit.seed(7)
        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(32, 4),
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 12)
        loader = DataLoader(TensorDataset(torch.randn(64, 1, 12, 12), torch.randint(4, (64,))), 8, shuffle=True)
        model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
        saved, first = run.load(), 1
        if saved:
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            schedule.load_state_dict(saved["schedule"])
            first = saved["epoch"] + 1
        for run.epoch in range(first, 4):
            for images, labels in loader:
                with accelerator.accumulate(model):
                    loss = F.cross_entropy(model(images), labels)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
            run.save(
                {
                    "model": accelerator.unwrap_model(model).state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "epoch": run.epoch,
                }
            )
    print("weights", isobit.fingerprint(accelerator.unwrap_model(model)))


if __name__ == "__main__":
    main()
