"""A trainer with hooks like Lightning's, around a module that defines its own steps, recorded by isobit.

    python examples/python/lightning_style.py --epochs 3
    isobit verify last
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

import isobit


class Digits(nn.Module):
    """A small convolutional network, and what it does with a batch."""

    def __init__(self, width=16, lr=3e-3):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.GELU(),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(2 * width, 4))

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch):
        x, y = batch
        return F.cross_entropy(self(x), y, label_smoothing=0.05)

    def validation_step(self, batch):
        x, y = batch
        scores = self(x)
        return {"loss": F.cross_entropy(scores, y).item(), "accuracy": (scores.argmax(1) == y).float().mean().item()}

    def configure_optimizers(self, steps):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01)
        return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, total_steps=steps)


class Callback:
    def on_epoch_end(self, trainer, module):
        pass


class KeepBest(Callback):
    def __init__(self):
        self.best, self.state = None, None

    def on_epoch_end(self, trainer, module):
        if self.best is None or trainer.metrics["loss"] < self.best:
            self.best = trainer.metrics["loss"]
            self.state = {name: value.clone() for name, value in module.state_dict().items()}


class Average(Callback):
    """An exponential moving average of the weights."""

    def __init__(self, module):
        self.model = torch.optim.swa_utils.AveragedModel(module, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))

    def on_epoch_end(self, trainer, module):
        self.model.update_parameters(module)


class Trainer:
    def __init__(self, epochs, callbacks=(), accumulate=1, clip=1.0):
        self.epochs, self.callbacks, self.accumulate, self.clip = epochs, callbacks, accumulate, clip
        self.metrics = {}

    def fit(self, module, train, validation, run):
        optimizer, schedule = module.configure_optimizers(self.epochs * (len(train) // self.accumulate))
        for run.epoch in range(1, self.epochs + 1):
            module.train()
            for index, batch in enumerate(train, 1):
                (module.training_step(batch) / self.accumulate).backward()
                if index % self.accumulate == 0:
                    nn.utils.clip_grad_norm_(module.parameters(), self.clip)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
            self.metrics = self.validate(module, validation)
            run.log("test", **self.metrics)
            print(f"epoch {run.epoch}: " + ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items()))
            for callback in self.callbacks:
                callback.on_epoch_end(self, module)

    @torch.no_grad()
    def validate(self, module, data):
        module.eval()
        rows = [module.validation_step(batch) for batch in data]
        return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def squares(count):
    """Noisy images of 12 x 12 with a bright square in one of the four corners."""
    labels = torch.randint(4, (count,))
    images = torch.randn(count, 1, 12, 12) * 0.5
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = 6 * (label // 2), 6 * (label % 2)
        image[0, row + 1:row + 5, column + 1:column + 5] += 1
    return TensorDataset(images, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=5) as run:
        isobit.seed(7)
        train, validation = random_split(squares(320), [256, 64])
        module = Digits()
        best, average = KeepBest(), Average(module)
        Trainer(args.epochs, [best, average], accumulate=2).fit(
            module, DataLoader(train, 16, shuffle=True, num_workers=args.workers), DataLoader(validation, 64), run)
    print("best", isobit.fingerprint(best.state), "average", isobit.fingerprint(average.model))
    print("weights", isobit.fingerprint(module))


if __name__ == "__main__":
    main()
