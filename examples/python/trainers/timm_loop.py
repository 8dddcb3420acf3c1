"""The pieces of timm's training script in a loop, recorded by isobit; killed, it resumes within the epoch when it is run again.

python examples/python/trainers/timm_loop.py
isobit verify last
"""

import argparse

import timm
import torch
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, dispatch_clip_grad
from torch.utils.data import DataLoader, TensorDataset

import isobit


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=2, resume=True) as run:
        isobit.seed(7)
        model = timm.create_model("resnet10t", num_classes=4, block_args=None, drop_path_rate=0.1)
        average = ModelEmaV3(model, decay=0.9)
        optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
        schedule = CosineLRScheduler(optimizer, t_initial=12, warmup_t=2, warmup_lr_init=1e-5, t_in_epochs=False)
        loss_of = LabelSmoothingCrossEntropy(0.1)
        loader = DataLoader(TensorDataset(torch.randn(32, 3, 32, 32), torch.randint(4, (32,))), 8, shuffle=True)
        kept = {"model": model, "average": average, "optimizer": optimizer, "schedule": schedule}
        if saved := run.load():
            for name, part in kept.items():
                part.load_state_dict(saved[name])
        for _ in run.epochs(3):
            for images, labels in run.batches(loader):
                optimizer.zero_grad()
                loss_of(model(images), labels).backward()
                dispatch_clip_grad(model.parameters(), 1.0)
                optimizer.step()
                average.update(model)
                schedule.step_update(run.steps)
                if run.steps % 3 == 0:
                    run.save({name: part.state_dict() for name, part in kept.items()})
    print("weights", isobit.fingerprint(model), "average", isobit.fingerprint(average.module))


if __name__ == "__main__":
    main()
