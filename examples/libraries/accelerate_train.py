"""A training loop of one's own with Accelerate: a checkpoint to begin with, evaluation, early stopping, the best model; recorded.

    python examples/libraries/accelerate_train.py --epochs 3
    isobit verify last
"""

import argparse
import pathlib
import tempfile

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, TensorDataset

import isobit


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 4))


def data(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 16, generator=generator)
    return TensorDataset(x, x[:, :4].argmax(1))


@torch.no_grad()
def evaluate(accelerator, model, loader):
    model.eval()
    right = total = 0
    for x, y in loader:
        guesses, labels = accelerator.gather_for_metrics((model(x).argmax(1), y))
        right += int((guesses == labels).sum())
        total += len(labels)
    return right / total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", help="weights as safetensors")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--patience", type=int, default=2)
    parser.add_argument("--runs", default="runs")
    args = parser.parse_args()
    with isobit.record(args.runs, every=10) as run, tempfile.TemporaryDirectory() as folder:
        isobit.seed(7)
        files = pathlib.Path(folder)
        if args.checkpoint is None:
            save_file(network().state_dict(), files / "start.safetensors")
        model = network()
        model.load_state_dict(load_file(args.checkpoint or files / "start.safetensors"))
        run.track(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        train, test = DataLoader(data(256, 1), 16, shuffle=True), DataLoader(data(64, 2), 32)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=args.epochs * len(train))
        model, optimizer, train, test, schedule = accelerator.prepare(model, optimizer, train, test, schedule)
        best, since = -1.0, 0
        for run.epoch in range(1, args.epochs + 1):
            model.train()
            for x, y in train:
                with accelerator.accumulate(model):
                    loss = F.cross_entropy(model(x), y)
                    accelerator.backward(loss)
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    schedule.step()
                    optimizer.zero_grad()
            accuracy = evaluate(accelerator, model, test)
            run.log("test", accuracy=accuracy)
            run.log("train", loss=loss, lr=schedule.get_last_lr()[0])
            since = 0 if accuracy > best else since + 1
            if accuracy > best:
                best = accuracy
                save_file(accelerator.unwrap_model(model).state_dict(), files / "best.safetensors")
            if since == args.patience:
                break
        accelerator.unwrap_model(model).load_state_dict(load_file(files / "best.safetensors"))
        print(f"accuracy {best:.4f}")
    print("weights", isobit.fingerprint(accelerator.unwrap_model(model)))


if __name__ == "__main__":
    main()
